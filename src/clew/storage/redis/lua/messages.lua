-- Returns a page of a thread's messages, in order. A search, or a page of one branch, reads a bounded
-- number and returns where to resume.
local user, id, search = next_argument(), next_optional(), next_argument()
local after, skip, limit, budget = next_number(), next_number(), tonumber(next_argument()), next_number()
local branch, namespace = next_argument(), next_argument() -- '' for all, '^' for the head's, '+' and a checkpoint
local later_than, earlier_than, newest = next_optional(), next_optional(), next_argument() == '1'

local t = visible_thread(user)
if not t or limit == 0 then return {'', 0} end
-- The messages asked for are those above `low` and below `high`.
local low, high = MESSAGES, MESSAGES + REGION
if later_than then low = score_of('m' .. later_than) end
if earlier_than then high = score_of('m' .. earlier_than) end
if not low or not high then return {'', 0} end
low, high = math.abs(low), math.abs(high)
if id then
  local score = score_of('m' .. id)
  local record = score and -score > low and -score < high and between(-score, -score)[1]
  if record and skip == 0 and (search == '' or has_text(record, search)) then return {'', 0, record} end
  return {'', 0}
end
local ranges
if branch ~= '' then
  local points = between(POINTS, POINTS)[1]
  if points and #points % 8 ~= 1 then error(DAMAGED_POINTS) end
  if branch ~= '^' then
    local base = space_base(namespace)
    local place = base and place_of(base, sub(branch, 2))
    if not place then return {'', 0} end
    ranges = visible(points or 'B', place - base)
  elseif points then
    ranges = visible(points, SPACE)
  end
end
if search == '' and not ranges then
  local first = call('ZCOUNT', key, '-inf', format('%.0f', low))
  local last
  if earlier_than then
    last = call('ZCOUNT', key, '-inf', format('(%.0f', high)) - 1
  else
    -- Not more than there are, because the header may be damaged.
    local count = math.min(t.messages, call('ZCOUNT', key, MESSAGES, MESSAGES + REGION - 1))
    last = call('ZCOUNT', key, '-inf', MESSAGES) + count - 1
  end
  if newest then
    last = last - skip
    if limit then first = math.max(first, last - limit + 1) end
  else
    first = first + skip
    if limit then last = math.min(last, first + limit - 1) end
  end
  local found = {'', 0}
  for from = first, last, AT_ONCE do
    for _, record in ipairs(call('ZRANGE', key, from, math.min(from + AT_ONCE - 1, last))) do
      found[#found + 1] = record
    end
  end
  return found
end
local found, skipped = {'', 0}, 0
if newest then
  -- A page of one branch, from the end on. `after` is where to resume.
  local kept, resume = {}, ''
  local top = after > 0 and MESSAGES + after or high
  while #kept ~= limit do
    local records = call('ZREVRANGEBYSCORE', key, format('(%.0f', top), format('(%.0f', low), 'LIMIT', 0, 200)
    for _, record in ipairs(records) do
      if is_said_in(ranges, record) then
        if skipped < skip then skipped = skipped + 1 else kept[#kept + 1] = record end
        if #kept == limit then break end
      end
    end
    if #records < 200 then break end
    top = MESSAGES + unpack_from('>I6', records[#records], 2)
    budget = budget - #records
    if budget <= 0 and #kept ~= limit then
      resume = format('%.0f', top - MESSAGES)
      break
    end
  end
  found = {resume, skipped}
  for at = #kept, 1, -1 do found[#found + 1] = kept[at] end
  return found
end
local from = math.max(low, MESSAGES + after)
while true do
  local records = call('ZRANGEBYSCORE', key, format('(%.0f', from), format('(%.0f', high), 'LIMIT', 0, 200)
  for _, record in ipairs(records) do
    if (search == '' or has_text(record, search)) and (not ranges or is_said_in(ranges, record)) then
      if skipped < skip then
        skipped = skipped + 1
      else
        found[#found + 1] = record
        if #found - 2 == limit then return found end
      end
    end
  end
  if #records < 200 then
    found[2] = skipped
    return found
  end
  -- The score, because the record may be damaged.
  from = score_of(records[#records])
  budget = budget - #records
  if budget <= 0 then
    found[1], found[2] = format('%.0f', from - MESSAGES), skipped
    return found
  end
end
