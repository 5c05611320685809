-- Draws a fencing token that is greater than any before and than the given one, in case the
-- counter's key was lost. The first write needs no memory, so a server whose memory is full accepts
-- the script: a deletion may need a lease.
redis.call('PERSIST', KEYS[1])
if tonumber(redis.call('GET', KEYS[1]) or 0) < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], ARGV[1]) end
return redis.call('INCR', KEYS[1])
