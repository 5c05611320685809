-- Takes threads out of an index, each only if nobody listed it since its score was read.
local gone = 0
for at = 1, #ARGV, 2 do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[at])
  if score and tonumber(score) == tonumber(ARGV[at + 1]) then
    gone = gone + redis.call('ZREM', KEYS[1], ARGV[at])
  end
end
return gone
