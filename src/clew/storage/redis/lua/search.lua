-- Returns the messages of a thread that contain a text: all of the time `day`, `microsecond`, and
-- the newest before it. Reads a bounded number and returns where to resume. The thread has to be
-- exactly this user's.
local user, search, day, microsecond = next_argument(), next_argument(), next_number(), next_number()
local limit, after, budget = tonumber(next_argument()), next_number(), next_number()

local t = read_thread()
if not t or (user ~= '*' and t.owner ~= user) then return {'', ''} end

local function is_newer(a, b)
  return a[1] > b[1] or (a[1] == b[1] and a[2] > b[2])
end

-- Whether a record has all its parts and a valid time. Others have no place in the order.
local function is_whole(record)
  if #record < 28 then return false end
  local text_at = unpack_from('>I4', record, 12) >= HAS_TOKENS and 40 or 28
  if #record < text_at then return false end
  local on, at = unpack_from('>I3I5', record, 16)
  local run_at = text_at + unpack_from('>I4', record, text_at - 4)
  if on < 1 or on > 3652059 or at >= 86400000000 or run_at + 2 > #record then return false end
  local run_size = unpack_from('>I3', record, run_at)
  local id_at = run_at + 3 + (run_size > 0 and run_size - 1 or 0)
  return id_at + 2 <= #record and id_at + 2 + unpack_from('>I3', record, id_at) <= #record
end

local found, at_bound = {}, {}

-- Keeps the newest `limit`, and those as old as the last of them.
local function cut()
  if not limit or #found <= limit then return end
  table.sort(found, is_newer)
  local last = found[limit]
  for at = #found, limit + 1, -1 do
    if is_newer(last, found[at]) then found[at] = nil end
  end
end

local from = MESSAGES + after
local resume = ''
while true do
  local records = call('ZRANGEBYSCORE', key, format('(%.0f', from), MESSAGES + REGION - 1, 'LIMIT', 0, 200)
  for _, record in ipairs(records) do
    if is_whole(record) and has_text(record, search) then
      local on, at = unpack_from('>I3I5', record, 16)
      if on == day and at == microsecond then
        at_bound[#at_bound + 1] = record
      elseif on < day or (on == day and at < microsecond) then
        found[#found + 1] = {on, at, record}
      end
    end
  end
  if limit and #found > 4 * limit + 200 then cut() end
  if #records < 200 then break end
  from = MESSAGES + unpack_from('>I6', records[#records], 2)
  budget = budget - #records
  if budget <= 0 then
    resume = format('%.0f', from - MESSAGES)
    break
  end
end
cut()
local answer = {resume, t.owner}
for _, record in ipairs(at_bound) do answer[#answer + 1] = record end
for _, each in ipairs(found) do answer[#answer + 1] = each[3] end
return answer
