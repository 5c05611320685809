-- Puts threads into an index of the journal, each with the listing that its commit saw, unless there is a later one.
for at = 1, #ARGV, 2 do
  -- A server whose memory is full would refuse to write what is there already.
  local listing = redis.call('ZSCORE', KEYS[1], ARGV[at + 1])
  if not listing or tonumber(listing) < tonumber(ARGV[at]) then redis.call('ZADD', KEYS[1], ARGV[at], ARGV[at + 1]) end
end
return 1
