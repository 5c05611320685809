-- Returns the attachments of one checkpoint (by the name of its group), or of all, from one
-- snapshot.
local user, name = next_argument(), next_argument()

if not visible_thread(user) then return {} end
if name == '' then return between(GROUPS, GROUPS + REGION - 1) end
local group = group_of(name)
return group and between(group, group) or {}
