-- Starts the feed, or records that somebody watches it: it ends ARGV[1] ms later. Returns the current
-- position, and whether the feed is new.
local new = redis.call('EXISTS', KEYS[1]) == 0
if new then redis.call('XADD', KEYS[1], '*', 'g', '') end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return {redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1][1], new and 1 or 0}
