-- Takes entries out of a thread's journal by their positions; the next entry still comes after them all. Counts those that are left.
local newest = newest_entry()
if not newest then return {0, 0} end
local mark, last, listing = read_mark()
local given, expires = unpack_from('>I8I8', newest, 2)
for _, position in ipairs(ARGV) do
  position = tonumber(position)
  if position > 0 and position < JOURNAL then call('ZREMRANGEBYSCORE', key, JOURNAL + position, JOURNAL + position) end
end
local first = call('ZRANGEBYSCORE', key, JOURNAL + 1, JOURNAL_END, 'LIMIT', 0, 1)[1]
if given > last and not call('ZRANGEBYSCORE', key, JOURNAL + given, JOURNAL + given)[1] then write_mark(mark, given, listing) end
if first then return {count_entries(), (unpack_from('>I8', first, 2))} end
-- Now what kept the key from expiring is gone.
local t = read_thread()
if t then
  if t.expires % 2 == 1 and expires > 0 then call('PEXPIRE', key, expires) end
else
  local lease = read_lease()
  local stays = MARK_STAYS
  if lease then
    stays = stays + (sub(lease.expires, 1, 7) - sub(lease.since, 1, 7)) * 86400000
      + math.max(0, math.floor((sub(lease.expires, 8) - sub(lease.since, 8)) / 1000))
  end
  call('PEXPIRE', key, format('%.0f', stays))
end
return {0, 0}
