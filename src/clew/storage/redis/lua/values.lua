-- Returns rows of a thread's value log, in order, with or without their data, from one snapshot.
local user, since, data = next_argument(), next_argument(), next_argument() == '1'

local t = visible_thread(user)
if not t then return {} end
local ranges = {}
if since ~= '' then
  ranges[1] = {tonumber(since), REGION - 1}
else
  for number = 1, next_number() do ranges[number] = {next_number(), next_number()} end
end
local rows = rows_of(ranges)
if not data then
  for at, row in ipairs(rows) do
    local _, count = read_row(row)
    rows[at] = sub(row, 1, ROW_HEAD + 16 * count)
  end
end
return {t.text, rows, between(POINTS, POINTS)[1] or 'B'}
