-- Returns for each of several threads 1 if its description has a text and all of some labels, else 0.
-- Missing threads give 0.
local FIELDS, LABELS = 1, 6 -- as in layout.lua, which serves one key
local search, wanted = ARGV[1], ARGV[2]

local function has_text(key)
  if search == '' then return true end
  local fields = redis.call('ZRANGEBYSCORE', key, FIELDS, FIELDS)[1]
  if not fields then return false end
  -- 'D', text (4 + …), …
  local size = struct.unpack('>I4', fields, 2)
  local _, stop = string.find(fields, search, 6, true)
  return stop and stop < 6 + size
end

local function has_labels(key)
  if wanted == '' then return true end
  local labels = redis.call('ZRANGEBYSCORE', key, LABELS, LABELS)[1]
  if not labels then return false end
  for from = 1, #wanted, 16 do
    if not string.find(labels, string.sub(wanted, from, from + 15), 2, true) then return false end
  end
  return true
end

local found = {}
for at, key in ipairs(KEYS) do
  found[at] = has_labels(key) and has_text(key) and 1 or 0
end
return found
