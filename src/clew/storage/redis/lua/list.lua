-- Puts a thread into an index, or raises the bound on its last activity; the score always changes, see unlist.lua.
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
local bound = tonumber(ARGV[2])
if score then bound = math.max(math.floor(tonumber(score)) + 1, bound) end
-- A script whose first write takes something away is let through by a server whose memory is full: the commit was applied.
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[1], bound, ARGV[1])
return 1
