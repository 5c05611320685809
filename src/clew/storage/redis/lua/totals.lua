-- Returns one thread's totals per day, over a bounded number of messages and checkpoints, and where
-- to resume.
local after, budget = next_argument(), next_number()

local t = read_thread()
if not t then return {} end
local days, order = {}, {}

local function day_of(number)
  local total = days[number]
  if not total then
    total = {0, 0, 0, 0, 0, 0}
    days[number] = total
    order[#order + 1] = number
  end
  return total
end

local records = call('ZRANGEBYSCORE', key, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, budget)
for at = 1, #records, 2 do
  local record = records[at]
  local kind = sub(record, 1, 1)
  if kind == 'M' then
    local m = read_message(record)
    local total = day_of(m.day)
    total[1], total[2] = total[1] + 1, total[2] + m.tool_calls
    total[4] = total[4] + size_of_message(record, m)
    total[5], total[6] = total[5] + m.input, total[6] + m.output
  elseif kind == 'C' then
    local c = read_checkpoint(record)
    local total = day_of(c.day)
    total[3], total[4] = total[3] + 1, total[4] + c.size
  end
end
local flat = {t.text, #records == 2 * budget and records[#records] or ''}
for _, number in ipairs(order) do
  flat[#flat + 1] = number
  for _, count in ipairs(days[number]) do flat[#flat + 1] = format('%.0f', count) end
end
return flat
