-- Removes threads from an index, each only if its score has not changed since it was read.
local gone = 0
for at = 1, #ARGV, 2 do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[at])
  if score and tonumber(score) == tonumber(ARGV[at + 1]) then
    gone = gone + redis.call('ZREM', KEYS[1], ARGV[at])
  end
end
return gone
