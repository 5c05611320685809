-- Draws a fencing token: greater than any drawn before, and than the given one, which a key that was lost does not know of.
-- The first write takes no memory, so a server whose memory is full lets it through: a deletion may need a lease.
redis.call('PERSIST', KEYS[1])
if tonumber(redis.call('GET', KEYS[1]) or 0) < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], ARGV[1]) end
return redis.call('INCR', KEYS[1])
