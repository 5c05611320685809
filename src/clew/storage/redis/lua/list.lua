-- Puts a thread into an index, or raises its bound. The score always changes, so that unlist.lua
-- notices.
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
local bound = tonumber(ARGV[2])
if score then bound = math.max(math.floor(tonumber(score)) + 1, bound) end
-- A removal comes first, so a server whose memory is full accepts the script: the commit has been
-- applied already.
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[1], bound, ARGV[1])
return 1
