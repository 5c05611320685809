-- Puts threads into an index of the journal, each with the listing that its commit saw. Listings
-- never decrease.
for at = 1, #ARGV, 2 do
  local listing = redis.call('ZSCORE', KEYS[1], ARGV[at + 1])
  if not listing or tonumber(listing) < tonumber(ARGV[at]) then
    -- A removal comes first, as in list.lua.
    redis.call('ZREM', KEYS[1], ARGV[at + 1])
    redis.call('ZADD', KEYS[1], ARGV[at], ARGV[at + 1])
  end
end
return 1
