-- How a thread lies in its one sorted set: the scores of its members, and the form of its records.
--
-- A member's first letter says what it is, its score where it lies. Records are in the order of their scores: the header,
-- what describes the thread, its origin, its lease, its chain, namespaces, attachments, messages, values, receipts, the journal
-- (journal.lua), checkpoints.
-- Names (of checkpoints, messages, groups of attachments) have the negative score of what they name. All scores are
-- whole numbers that a double holds exactly.
local HEADER, FIELDS, ORIGIN, LEASE, CHAIN = 0, 1, 2, 3, 4
local REGION = 2 ^ 44
local SPACES, GROUPS, MESSAGES, VALUES = REGION, 4 * REGION, 5 * REGION, 6 * REGION
local CHECKPOINTS = 2 ^ 52
local SPACE = 2 ^ 32 -- sequence numbers a namespace has room for
local MOST_SPACES = 2 ^ 20 - 1 -- namespaces a thread has room for
local AT_ONCE = 4000 -- arguments of one call: Lua's stack holds about 8,000

local call, byte, find, format, match, sub = redis.call, string.byte, string.find, string.format, string.match, string.sub
local pack, unpack_from = struct.pack, struct.unpack
local key = KEYS[1]

-- The header: version, incarnation, sequence, epoch, next value, last message's position, groups, namespaces, checkpoints,
-- messages, tool calls, bytes of state, bytes of messages, when it was made (by the clock of who made it), changes of owner, whether it
-- expires (1) and has a chain (2), created, updated; the id of the main namespace's head (3 + …), the owner ('-', or '+' and the name).
local HEADER_FORMAT = '>c2c20I4I4I8I8I4I4I4I4I8I8I8I8I4I1c18c18I3'
local DAMAGED = 'CLEWFORMAT the header of a thread is damaged, or of a newer version'

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
