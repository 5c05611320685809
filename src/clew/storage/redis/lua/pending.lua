-- Puts threads into an index of the journal, each with the listing that its commit saw, unless there is a later one.
for at = 1, #ARGV, 2 do redis.call('ZADD', KEYS[1], 'GT', ARGV[at], ARGV[at + 1]) end
return 1
