-- Layout of a thread's journal in the thread's key, and appending to it: positions always grow,
-- also after trimming.
--
-- An entry's score is JOURNAL + its position, which is the server's time in microseconds since
-- 2020, or one more than the last position: 'J', position (8), the thread's TTL in ms (8, 0 for
-- none), the previous commit (3 + …, 0 for none), incarnation (20 bytes, NULs for none), day (3),
-- microseconds of the day (5), commit (3 + …), data. At JOURNAL itself is the mark: 'P', a position
-- that was given (8), the listing (8), a lower bound of the positions (8). Removing the thread from
-- the index begins by changing the listing: see journal.py. A key with entries has a mark and never
-- expires.
local JOURNAL, JOURNAL_END = 2251799813685248, 4503599627370495 -- 2^51, 2^52 - 1
local MARK_STAYS = 86400000 -- ms that the mark outlives its thread

local function read_mark()
  local text = redis.call('ZRANGEBYSCORE', KEYS[1], JOURNAL, JOURNAL)[1]
  if not text then return nil, 0, 0, 0 end
  return text, struct.unpack('>I8I8I8', text, 2)
end

-- Replaces the mark `text`. The key is never empty in between, which would reset its TTL.
local function write_mark(text, last, listing, oldest)
  local new = struct.pack('>c1I8I8I8', 'P', last, listing, oldest)
  if new == text then return end
  redis.call('ZADD', KEYS[1], JOURNAL, new)
  if text then redis.call('ZREM', KEYS[1], text) end
end

local function newest_entry()
  return redis.call('ZREVRANGEBYSCORE', KEYS[1], JOURNAL_END, JOURNAL + 1, 'LIMIT', 0, 1)[1]
end

local function count_entries()
  return redis.call('ZCOUNT', KEYS[1], JOURNAL + 1, JOURNAL_END)
end

-- Returns the time, or `last` + 1 if the clock is behind it or out of range.
local function later_than(last)
  local time = redis.call('TIME')
  local now = (time[1] - 1577836800) * 1000000 + time[2]
  if now <= last or now >= JOURNAL then return last + 1 end
  return now
end

-- Appends an entry and returns the listing. `after` is '+' and the previous commit, or '-'.
local function note(after, incarnation, expires, tail)
  local mark, last, listing = read_mark()
  local newest = newest_entry()
  if newest then last = math.max(last, (struct.unpack('>I8', newest, 2))) end
  local position = later_than(last)
  if not mark then
    listing = position
    write_mark(nil, 0, listing, position)
  end
  if after == '-' then after = struct.pack('>I3', 0) else after = struct.pack('>I3', #after) .. string.sub(after, 2) end
  redis.call('ZADD', KEYS[1], JOURNAL + position,
    struct.pack('>c1I8I8', 'J', position, tonumber(expires) or 0) .. after .. struct.pack('c20', incarnation) .. tail)
  redis.call('PERSIST', KEYS[1])
  return listing
end
