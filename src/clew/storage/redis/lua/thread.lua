-- Returns one thread's record and head, from one snapshot. Empty if there is no thread; only the
-- header if the thread is another user's or does not have the searched text or all the labels.
local user, search, wanted = next_argument(), next_argument(), next_argument()

local t = read_thread()
if not t then return {} end
if not open_to(t.owner, user) then return {t.text} end
local fields = between(FIELDS, FIELDS)[1] or ''
if search ~= '' then
  -- 'D', text (4 + …), …
  if fields == '' then return {t.text} end
  local size = unpack_from('>I4', fields, 2)
  local _, stop = find(fields, search, 6, true)
  if not stop or stop >= 6 + size then return {t.text} end
end
local labels = sub(between(LABELS, LABELS)[1] or '', 2)
for from = 1, #wanted, 16 do
  if not find(labels, sub(wanted, from, from + 15), 1, true) then return {t.text} end
end
local head = head_of(t)
if head then head = sub(head, 1, end_of_info(head, read_checkpoint(head))) end
return {t.text, fields, between(ORIGIN, ORIGIN)[1] or '', head or '', labels}
