-- Removes entries from a thread's journal by their positions. Later entries still get greater
-- positions. Returns how many are left, and the position of the oldest.
local newest = newest_entry()
if not newest then return {0, 0} end
local mark, last, listing = read_mark()
local given, expires = unpack_from('>I8I8', newest, 2)
local removed = 0
for _, position in ipairs(ARGV) do
  position = tonumber(position)
  if position > 0 and position < JOURNAL then
    removed = removed + call('ZREMRANGEBYSCORE', key, JOURNAL + position, JOURNAL + position)
  end
end
local first = call('ZRANGEBYSCORE', key, JOURNAL + 1, JOURNAL_END, 'LIMIT', 0, 1)[1]
local oldest = first and unpack_from('>I8', first, 2) or given + 1
-- Not the first write of the script, which a server whose memory is full would refuse.
if removed > 0 then write_mark(mark, math.max(last, given), listing, oldest) end
if first then return {count_entries(), oldest} end
-- Without entries, the key may expire again.
local t = read_thread()
if t then
  if t.expires % 2 == 1 and expires > 0 then call('PEXPIRE', key, expires) end
else
  expire_alone()
end
return {0, 0}
