-- Returns everything that a fork of one checkpoint copies, from one snapshot: the checkpoint, its
-- rows, its attachments, and the messages of its branch up to it.
local user, namespace, id, group_prefix = next_argument(), next_argument(), next_optional(), next_argument()

local t = visible_thread(user)
if not t then return {} end
local base = space_base(namespace)
local record
if base then
  if id then
    local place = place_of(base, id)
    record = place and between(place, place)[1]
  else
    record = newest_of(base, base + SPACE - 1, 1)[1]
  end
end
if not record then return {t.text} end
local c = read_checkpoint(record)
local ranges = {}
unpack_ranges(covers_of(record, c), ranges)
local group = group_of(group_prefix .. c.id)
local messages = {}
local points = between(POINTS, POINTS)[1] or 'B'
if #points % 8 ~= 1 then error(DAMAGED_POINTS) end
local said = visible(points, c.sequence)
for _, each in ipairs(between(MESSAGES, MESSAGES + REGION - 1)) do
  if is_said_in(said, each) then messages[#messages + 1] = each end
end
return {t.text, between(FIELDS, FIELDS)[1] or '', between(LABELS, LABELS)[1] or '', record, rows_of(union(ranges)), group and between(group, group) or {}, messages}
