-- Layout of a thread in its sorted set: the scores of members and the format of records. Scores
-- never collide between kinds.
--
-- A member's first letter is its kind. By score, the kinds are: header, description, origin,
-- leases, chain, branch points, labels ('G', 16 bytes each), the end of a deleted thread's chain
-- (ended.lua), namespaces, attachments, messages, values, receipts (receipts.lua), journal
-- (journal.lua), checkpoints. The name of a checkpoint, message or group of attachments is a member
-- of its own, with the negative score of what it names. All scores are integers that a double
-- holds exactly.
local HEADER, FIELDS, ORIGIN, LEASE, CHAIN, POINTS, LABELS, ENDED = 0, 1, 2, 3, 4, 5, 6, 7
local REGION = 2 ^ 44
local SPACES, GROUPS, MESSAGES, VALUES = REGION, 4 * REGION, 5 * REGION, 6 * REGION
local CHECKPOINTS = 2 ^ 52
local SPACE = 2 ^ 32 -- sequence numbers per namespace
local MOST_SPACES = 2 ^ 20 - 1 -- namespaces per thread
local MOST_POINTS = 1000 -- as in storage/branches.py
local AT_ONCE = 4000 -- arguments of one call: Lua's stack holds about 8,000

local call, byte, find, format, match, sub = redis.call, string.byte, string.find, string.format, string.match, string.sub
local pack, unpack_from = struct.pack, struct.unpack
local key = KEYS[1]

-- Header: version, incarnation, sequence, epoch, next value, last message's position, groups,
-- namespaces, checkpoints, messages, tool calls, bytes of state, bytes of messages, ordinal (the
-- creator's time), changes of owner, flags (1: has a TTL, 2: has a chain), created, updated, the id
-- of the main namespace's head (3 + …), the owner ('-', or '+' and the name).
local HEADER_FORMAT = '>c2c20I4I4I8I8I4I4I4I4I8I8I8I8I4I1c18c18I3'
local DAMAGED = 'CLEWFORMAT the header of a thread is damaged, or of a newer version'

-- Returns whether a number of a header is out of range: then it is damaged, and the next one would
-- not fit, or a loop over it would not end. `Header.unusable` has the same bounds.
local function is_unusable(sequence, epoch, next_value, last_message, groups, spaces, checkpoints, messages, tool_calls,
  state_size, message_size)
  return sequence > 0xFFFF0000 or epoch > 0xFFFF0000 or next_value > 2 ^ 43 or last_message > 2 ^ 43
    or groups > 0xFFFF0000 or spaces > MOST_SPACES or checkpoints > 0xFFFF0000 or messages > 0xFFFF0000
    or tool_calls > 2 ^ 53 or state_size > 2 ^ 53 or message_size > 2 ^ 53
end

-- Checkpoints: 'C', sequence (4), parent (3 + …, 0 for none), id (3 + …), flags (1), counted bytes
-- (5), when it was saved: day (3) and microseconds of the day (5), when it was created (8, if it was
-- replaced), run (3 + …, 0 for none), info (4 + …), covers (4 + …), body. Flags: 1 if the commit of
-- its id made it, 2 if it was replaced.
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
  local flags = byte(record, at)
  local size, day = unpack_from('>I5I3', record, at + 1)
  local saved, run_at = sub(record, at + 6, at + 13), at + CHECKPOINT_FIXED
  local created = saved
  if flags == 2 or flags == 3 then
    created, run_at = sub(record, run_at, run_at + 7), run_at + 8
  end
  return {sequence = sequence, parent = parent, id = id, own = flags == 1 or flags == 3, size = size, day = day,
    saved = saved, created = created, run_at = run_at}
end

-- Leases: 'L2 token since expires size-of-space space holder'. The space is the owner that the
-- lease is valid for: the thread's owner, or before the thread exists, each user who may create it.
-- The older 'L1 token since expires holder' is valid for any.
local function read_lease(text)
  local token, since, expires, rest = match(text, '^L%d (%d+) (%d+) (%d+) (.*)$')
  -- A damaged lease is nobody's.
  local nobody = {text = text, token = 0, since = '0', expires = '0', holder = '', space = ''}
  if not token then return nobody end
  local lease = {text = text, token = tonumber(token), since = since, expires = expires, holder = rest}
  if sub(text, 2, 2) ~= '1' then
    local size, stop = match(rest, '^(%d+) ()')
    if not size then return nobody end
    lease.space, lease.holder = sub(rest, stop, stop + size - 1), sub(rest, stop + size + 1)
  end
  return lease
end

local function lease_in(space)
  for _, text in ipairs(call('ZRANGEBYSCORE', key, LEASE, LEASE)) do
    local lease = read_lease(text)
    if lease.space == space or not lease.space then return lease end
  end
end
