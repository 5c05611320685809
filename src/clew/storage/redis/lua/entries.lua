-- How many entries a thread's journal has, the position of the oldest, the listing, and the oldest entries: one view of the thread.
local limit = tonumber(ARGV[1])
local _, _, listing = read_mark()
local first = redis.call('ZRANGEBYSCORE', KEYS[1], JOURNAL + 1, JOURNAL_END, 'LIMIT', 0, math.max(limit, 1))
if not first[1] then return {0, 0, listing} end
local answer = {count_entries(), (struct.unpack('>I8', first[1], 2)), listing}
for at = 1, math.min(limit, #first) do answer[at + 3] = first[at] end
return answer
