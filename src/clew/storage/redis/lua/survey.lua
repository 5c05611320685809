-- Returns for each thread the number of its journal entries, a lower bound of their positions, and
-- the listing. Reads no data.
local answers = {}
for at, key in ipairs(KEYS) do
  local mark = redis.call('ZRANGEBYSCORE', key, JOURNAL, JOURNAL)[1]
  local count, oldest, listing = 0, 0, 0
  if mark then
    count = redis.call('ZCOUNT', key, JOURNAL + 1, JOURNAL_END)
    listing, oldest = struct.unpack('>I8I8', mark, 10)
  end
  answers[at] = {count, math.max(listing, oldest), listing}
end
return answers
