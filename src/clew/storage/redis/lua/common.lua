-- Every script begins with this: how a thread lies in its one sorted set, and how to read what is there.
--
-- A member's first letter says what it is, its score where it lies. Records are in the order of their scores: the header,
-- what describes the thread, its origin, its lease, its chain, namespaces, receipts, attachments, messages, values, the journal
-- (journal.lua), checkpoints.
-- Names (of checkpoints, messages, groups of attachments) have the negative score of what they name. All scores are
-- whole numbers that a double holds exactly.
local HEADER, FIELDS, ORIGIN, LEASE, CHAIN = 0, 1, 2, 3, 4
local REGION = 2 ^ 44
local SPACES, RECENT, LASTING, GROUPS = REGION, 2 * REGION, 3 * REGION, 4 * REGION
local MESSAGES, VALUES, CHECKPOINTS = 5 * REGION, 6 * REGION, 2 ^ 52
local SPACE = 2 ^ 32 -- sequence numbers a namespace has room for
local MOST_SPACES = 2 ^ 20 - 1 -- namespaces a thread has room for
local AT_ONCE = 4000 -- arguments of one call: Lua's stack holds about 8,000
local RECEIPTS_KEPT = 256

local call, byte, find, format, match, sub = redis.call, string.byte, string.find, string.format, string.match, string.sub
local pack, unpack_from = struct.pack, struct.unpack
local key = KEYS[1]
local position = 0

local function next_argument()
  position = position + 1
  return ARGV[position]
end

local function next_number()
  return tonumber(next_argument())
end

-- An argument that may be absent: nil for '', else what follows the '+'.
local function next_optional()
  local given = next_argument()
  if given == '' then return nil end
  return sub(given, 2)
end

local function between(first, last)
  return call('ZRANGEBYSCORE', key, first, last)
end

-- The header: version, incarnation, sequence, epoch, next value, last message's position, groups, namespaces, checkpoints,
-- messages, tool calls, bytes of state, bytes of messages, when it was made (by the clock of who made it), changes of owner, whether it
-- expires (1) and has a chain (2), created, updated; the id of the main namespace's head (3 + …), the owner ('-', or '+' and the name).
local HEADER_FORMAT = '>c2c20I4I4I8I8I4I4I4I4I8I8I8I8I4I1c18c18I3'

-- The thread's header as a table; nil if there is no thread (though there may be a lease).
local function read_thread()
  local _
  local text = between(HEADER, HEADER)[1]
  if not text then return nil end
  if sub(text, 1, 2) ~= 'H1' then error('CLEWFORMAT the header of a thread is damaged, or of a newer version') end
  local t = {text = text}
  local head_size, rest
  _, t.incarnation, t.sequence, t.epoch, t.next_value, t.last_message, t.groups, t.spaces, t.checkpoints, t.messages,
    t.tool_calls, t.state_size, t.message_size, t.ordinal, t.moves, t.expires, t.created, t.updated, head_size, rest =
    unpack_from(HEADER_FORMAT, text)
  t.owner = sub(text, rest + head_size)
  return t
end

local function open_to(owner, user)
  return owner == '-' or user == '*' or owner == user
end

-- The thread, unless there is none or it is another user's.
local function visible_thread(user)
  local t = read_thread()
  if t and open_to(t.owner, user) then return t end
  return nil
end

-- Namespaces

-- The score of a name; nil if there is none.
local function score_of(name)
  local score = call('ZSCORE', key, name)
  if not score then return nil end
  return tonumber(score)
end

-- Where the checkpoints of a namespace begin; nil if it has none.
local function space_base(namespace)
  if namespace == '' then return CHECKPOINTS end
  local score = score_of('n' .. namespace)
  return score and CHECKPOINTS + (score - SPACES) * SPACE
end

local function all_bases(t)
  local bases = {CHECKPOINTS}
  for number = 1, t.spaces do bases[number + 1] = CHECKPOINTS + number * SPACE end
  return bases
end

local function name_of_checkpoint(base, id)
  return format('c%.0f:', (base - CHECKPOINTS) / SPACE) .. id
end

-- The score of the checkpoint's record; nil if there is none.
local function place_of(base, id)
  local score = score_of(name_of_checkpoint(base, id))
  return score and -score
end

-- Checkpoints: 'C', sequence (4), parent (3 + …, 0 for none), id (3 + …), made by the commit of its id (1), counted bytes (5),
-- day (3), microseconds of the day (5), run (3 + …, 0 for none), info (4 + …), covers (4 + …), body.
local CHECKPOINT_FIXED = 14

local function read_checkpoint(record)
  local sequence, parent_size = unpack_from('>I4I3', record, 2)
  local at = 9
  local parent
  if parent_size > 0 then
    parent = sub(record, at, at + parent_size - 2)
    at = at + parent_size - 1
  end
  local id_size = unpack_from('>I3', record, at)
  local id = sub(record, at + 3, at + 2 + id_size)
  at = at + 3 + id_size
  local own = byte(record, at) == 1
  local size, day = unpack_from('>I5I3', record, at + 1)
  return {sequence = sequence, parent = parent, id = id, own = own, size = size, day = day,
    stamp = sub(record, at + 6, at + 13), run_at = at + CHECKPOINT_FIXED}
end

local function run_of(record, c)
  local size = unpack_from('>I3', record, c.run_at)
  if size == 0 then return nil end
  return sub(record, c.run_at + 3, c.run_at + 1 + size)
end

-- Where the info ends, after which a reader of fields alone needs nothing.
local function end_of_info(record, c)
  local run_size = unpack_from('>I3', record, c.run_at)
  local at = c.run_at + 3 + (run_size > 0 and run_size - 1 or 0)
  return at + 3 + unpack_from('>I4', record, at)
end

local function covers_of(record, c)
  local at = end_of_info(record, c) + 1
  local size = unpack_from('>I4', record, at)
  return sub(record, at + 4, at + 3 + size)
end

-- Appends the ranges that are packed in `covers` to `ranges`: see `pack_ranges`.
local function unpack_ranges(covers, ranges)
  local numbers, count, number, scale = {}, 0, 0, 1
  for at = 1, #covers do
    local value = byte(covers, at)
    if value >= 128 then
      number = number + (value - 128) * scale
      scale = scale * 128
    else
      count = count + 1
      numbers[count] = number + value * scale
      number, scale = 0, 1
    end
  end
  local last = 0
  for at = 1, count - 1, 2 do
    local distance = numbers[at]
    if distance % 2 == 0 then distance = distance / 2 else distance = -(distance + 1) / 2 end
    local first = last + distance
    last = first + numbers[at + 1]
    ranges[#ranges + 1] = {first, last}
  end
end

-- The records from `top` down to the first of the namespace at `base`, newest first: at most `limit`, those `wanted` says yes to.
local function newest_of(base, top, limit, wanted)
  local found = {}
  local chunk = (limit and not wanted) and limit or 200
  if limit == 0 then return found end
  while true do
    local records = call('ZREVRANGEBYSCORE', key, top, base + 1, 'LIMIT', 0, chunk)
    for _, record in ipairs(records) do
      if not wanted or wanted(record) then
        found[#found + 1] = record
        if #found == limit then return found end
      end
    end
    if #records < chunk then return found end
    top = base + unpack_from('>I4', records[#records], 2) - 1
  end
end

-- The newest in all namespaces together.
local function newest_of_all(bases, before, limit, wanted)
  if #bases == 1 then return newest_of(bases[1], bases[1] + before - 1, limit, wanted) end
  local found = {}
  for _, base in ipairs(bases) do
    for _, record in ipairs(newest_of(base, base + before - 1, limit, wanted)) do
      found[#found + 1] = {unpack_from('>I4', record, 2), record}
    end
  end
  table.sort(found, function(one, other) return one[1] > other[1] end)
  local newest = {}
  for at = 1, math.min(limit or #found, #found) do newest[at] = found[at][2] end
  return newest
end

-- The thread's head: the main namespace's, or the newest of the others.
local function head_of(t)
  return newest_of(CHECKPOINTS, CHECKPOINTS + SPACE - 1, 1)[1] or newest_of_all(all_bases(t), SPACE, 1)[1]
end

-- Values: 'V', first (6), count (4), digests (16 each), data.
local ROW_HEAD = 11

local function read_row(row)
  return unpack_from('>I6I4', row, 2)
end

-- Ranges as few as possible, in order.
local function union(ranges)
  table.sort(ranges, function(one, other) return one[1] < other[1] end)
  local joined = {}
  for _, range in ipairs(ranges) do
    local last = joined[#joined]
    if range[2] > range[1] then
      if last and range[1] <= last[2] then
        last[2] = math.max(last[2], range[2])
      else
        joined[#joined + 1] = {range[1], range[2]}
      end
    end
  end
  return joined
end

-- The rows that hold any value of `ranges` (in order, apart), each once, in order.
local function rows_of(ranges)
  local found, last = {}, -1
  for _, range in ipairs(ranges) do
    local first, stop = range[1], range[2]
    local before = call('ZREVRANGEBYSCORE', key, VALUES + first, VALUES, 'LIMIT', 0, 1)[1]
    local from = VALUES + first
    if before then
      local start, count = read_row(before)
      if start + count > first and start > last then
        found[#found + 1] = before
        last = start
      end
      from = VALUES + math.max(first, start + 1)
    end
    for _, row in ipairs(between(from, VALUES + stop - 1)) do
      local start = read_row(row)
      if start > last then
        found[#found + 1] = row
        last = start
      end
    end
  end
  return found
end

-- Messages: 'M', position (6), added by (4), tool calls (4), day (3), microseconds of the day (5), text (4 + …), run (3 + …, 0 for
-- none), id (3 + …), data.
local TEXT_AT = 28

local function read_message(record)
  local at, sequence, tool_calls, day, _, text_size = unpack_from('>I6I4I4I3I5I4', record, 2)
  return {position = at, sequence = sequence, tool_calls = tool_calls, day = day, text_size = text_size}
end

-- The bytes that count for a message: its text and its data.
local function size_of_message(record, m)
  local at = TEXT_AT + m.text_size
  local run_size = unpack_from('>I3', record, at)
  at = at + 3 + (run_size > 0 and run_size - 1 or 0)
  local id_size = unpack_from('>I3', record, at)
  return m.text_size + #record - (at + 2 + id_size)
end

local function has_text(record, needle)
  local text_size = unpack_from('>I4', record, TEXT_AT - 4)
  local _, stop = find(record, needle, TEXT_AT, true)
  return stop ~= nil and stop < TEXT_AT + text_size
end

-- Attachments lie in a group for each checkpoint: 'A', namespace, checkpoint and key (3 + … each), data.
local function group_of(name)
  local score = score_of(name)
  return score and -score
end

-- '+' and the last commit of the thread's chain ('K', commit), or '-'. What the header says counts: a chain that it does not
-- know of was ended by a Clew of before there were chains.
local function chain_of(t)
  if not t or t.expires < 2 then return '-' end
  return '+' .. sub(between(CHAIN, CHAIN)[1] or '', 2)
end

-- The lease: 'L1 token since expires holder'.
local function read_lease()
  local text = between(LEASE, LEASE)[1]
  if not text then return nil end
  local token, since, expires, holder = match(text, '^L1 (%d+) (%d+) (%d+) (.*)$')
  return {text = text, token = tonumber(token), since = since, expires = expires, holder = holder}
end
