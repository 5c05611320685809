-- Returns the checkpoints that a query asks for, newest first, and the value rows that they need,
-- from one snapshot.
local user = next_argument()
local namespace, id, before = next_optional(), next_optional(), next_optional()
local mark = tonumber(next_argument()) or SPACE
local run, limit = next_optional(), tonumber(next_argument())
local detail, known = next_argument(), next_optional()

local t = visible_thread(user)
if not t then return {} end
local bases
if namespace then bases = {space_base(namespace)} else bases = all_bases(t) end

-- Returns {score, sequence} of the checkpoints with the id in the requested namespaces, newest
-- first.
local function named(name)
  local places = {}
  for _, base in ipairs(bases) do
    local place = place_of(base, name)
    if place then places[#places + 1] = {place, place - base} end
  end
  table.sort(places, function(one, other) return one[2] > other[2] end)
  return places
end

if before then
  local places = named(before)
  mark = math.min(mark, places[1] and places[1][2] or 0)
end
local wanted
if run then
  wanted = function(record) return run_of(record, read_checkpoint(record)) == run end
end
local found = {}
if id then
  for _, place in ipairs(named(id)) do
    if place[2] < mark and #found ~= limit then
      local record = between(place[1], place[1])[1]
      if not wanted or wanted(record) then found[#found + 1] = record end
    end
  end
else
  found = newest_of_all(bases, mark, limit, wanted)
end
local rows = {}
if detail == 'info' then
  for at, record in ipairs(found) do found[at] = sub(record, 1, end_of_info(record, read_checkpoint(record))) end
elseif detail == 'state' then
  local ranges = {}
  for _, record in ipairs(found) do
    local c = read_checkpoint(record)
    if c.id ~= known then unpack_ranges(covers_of(record, c), ranges) end
  end
  rows = rows_of(union(ranges))
end
return {t.text, found, rows}
