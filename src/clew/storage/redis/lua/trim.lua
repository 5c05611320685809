-- Takes entries out of a thread's journal by their positions; the next one still comes after them all. Says how many are left, and
-- the position of the oldest.
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
-- Not the first write of the script: a server whose memory is full would refuse it.
if removed > 0 then write_mark(mark, math.max(last, given), listing, oldest) end
if first then return {count_entries(), oldest} end
-- Now what kept the key from expiring is gone.
local t = read_thread()
if t then
  if t.expires % 2 == 1 and expires > 0 then call('PEXPIRE', key, expires) end
else
  local stays, lease = MARK_STAYS, read_lease()
  if lease then
    stays = stays + (sub(lease.expires, 1, 7) - sub(lease.since, 1, 7) + 1) * 86400000
  end
  call('PEXPIRE', key, format('%.0f', stays))
end
return {0, 0}
