-- Returns for each of several threads 1 if its description has a text, else 0. Missing threads give
-- 0.
local FIELDS = 1 -- as in layout.lua, which serves one key
local search = ARGV[1]

local found = {}
for at, key in ipairs(KEYS) do
  found[at] = 0
  local fields = redis.call('ZRANGEBYSCORE', key, FIELDS, FIELDS)[1]
  if fields then
    -- 'D', text (4 + …), …
    local size = struct.unpack('>I4', fields, 2)
    local _, stop = string.find(fields, search, 6, true)
    if stop and stop < 6 + size then found[at] = 1 end
  end
end
return found
