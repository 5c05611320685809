-- Compare-and-swap of one of Clew's own records: of several concurrent callers, one wins.
local data, instead_of = ARGV[1], ARGV[2] or false
local found = redis.call('GET', KEYS[1])
if found == data then return 1 end
if found ~= instead_of then return 0 end
-- The first write needs no memory, so a server whose memory is full accepts the script: a cleanup
-- needs its turn.
redis.call('PERSIST', KEYS[1])
redis.call('SET', KEYS[1], data)
return 1
