-- Returns a page of a thread's messages, in order. A search, or a page of one branch, reads a bounded
-- number and returns where to resume.
local user, id, search = next_argument(), next_optional(), next_argument()
local after, skip, limit, budget = next_number(), next_number(), tonumber(next_argument()), next_number()
local branch, namespace = next_argument(), next_argument() -- '' for all, '^' for the head's, '+' and a checkpoint

local t = visible_thread(user)
if not t or limit == 0 then return {'', 0} end
if id then
  local score = call('ZSCORE', key, 'm' .. id)
  local record = score and between(-tonumber(score), -tonumber(score))[1]
  if record and skip == 0 and (search == '' or has_text(record, search)) then return {'', 0, record} end
  return {'', 0}
end
local ranges
if branch ~= '' then
  local points = between(POINTS, POINTS)[1]
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
  local first = call('ZCOUNT', key, '-inf', MESSAGES)
  -- Not more than there are, because the header may be damaged.
  local last = math.min(t.messages, call('ZCOUNT', key, MESSAGES, MESSAGES + REGION - 1)) - 1
  if limit then last = math.min(last, skip + limit - 1) end
  local found = {'', 0}
  for from = first + skip, first + last, AT_ONCE do
    for _, record in ipairs(call('ZRANGE', key, from, math.min(from + AT_ONCE - 1, first + last))) do
      found[#found + 1] = record
    end
  end
  return found
end
local found, skipped = {'', 0}, 0
local from = MESSAGES + after
while true do
  local records = call('ZRANGEBYSCORE', key, format('(%.0f', from), MESSAGES + REGION - 1, 'LIMIT', 0, 200)
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
