-- Checks the rules that apply to every commit, in the order of clew.storage.rules, up to the fence:
-- content_rules.lua has the others. Nothing is written here. A refusal is {0, rule, '+' and the
-- name that was found, the number that was found}. The functions of common.lua are not available
-- yet, because creating them takes time that the fast path (fast_append.lua) saves.
local user, commit_id, at, ttl, new_incarnation, ordinal, first_epoch, basis, basis_epoch, after, entry, fence, parts, whole, as_of =
  unpack(ARGV, 1, 15)
-- The new values and the new checkpoint. These arguments are absent if there is neither.
local first_value, value_count, row, namespace, made_id, wanted_parent, rejects, made_size, made_tail = '', '', '', '', '', ''
local read = 15 -- arguments so far
if byte(parts) == 67 then -- 'C'
  first_value, value_count, row, namespace, made_id, wanted_parent, rejects, made_size, made_tail = unpack(ARGV, 16, 24)
  read = 24
end

local made = wanted_parent ~= '' -- whether the commit makes a checkpoint, for a fork too
local chain = '-' -- or '+' and the last commit of the thread's chain
local base, existing -- where the checkpoints of the namespace begin; the stored checkpoint with the new one's id
local version, incarnation, sequence, epoch, next_value, last_message, groups, spaces, checkpoints, messages, tool_calls, state_size,
  message_size, created_by, moves, expires, created, updated, head, owner

local header = call('ZRANGEBYSCORE', key, HEADER, HEADER)[1]
-- Of a thread whose header can't be read, nobody knows the owner: only ANY_USER deletes it. It is replaced by that of
-- an empty thread with an owner that no user has.
if header and whole == 't' and user == '*' and not (sub(header, 1, 2) == 'H1' and pcall(unpack_from, HEADER_FORMAT, header)) then
  header = pack(HEADER_FORMAT, 'H1', string.rep('\0', 20), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, at, at, 0)
end
if header then
  if sub(header, 1, 2) ~= 'H1' then error(DAMAGED) end
  version, incarnation, sequence, epoch, next_value, last_message, groups, spaces, checkpoints, messages, tool_calls, state_size,
    message_size, created_by, moves, expires, created, updated, head, owner = unpack_from(HEADER_FORMAT, header)
  head, owner = sub(header, owner, owner + head - 1), sub(header, owner + head)
  -- Only if the header has the flag: versions without chains end a chain by writing a header
  -- without it.
  if expires >= 2 then chain = '+' .. sub(call('ZRANGEBYSCORE', key, CHAIN, CHAIN)[1] or '', 2) end

  -- owner
  if owner ~= '-' and user ~= '*' and user ~= owner then return {0, 'owner', '', ''} end

  -- A damaged thread can only be deleted.
  if whole ~= 't' and is_unusable(sequence, epoch, next_value, last_message, groups, spaces, checkpoints, messages, tool_calls,
    state_size, message_size) then return {0, 'damaged', '', ''} end

  -- receipt
  local number = made and 0
  if made and namespace ~= '' then
    number = call('ZSCORE', key, 'n' .. namespace)
    number = number and number - SPACES
  end
  if number then base = CHECKPOINTS + number * SPACE end
  local own = 'c0:' .. commit_id
  local scores = call('ZMSCORE', key, 'r' .. commit_id, own, number and 'c' .. number .. ':' .. made_id or own, 'c0:' .. head)
  -- With a lower sequence than the head's, a new checkpoint would not be found.
  if whole ~= 't' and scores[4] and -scores[4] > CHECKPOINTS + sequence then return {0, 'damaged', '', ''} end
  local known = scores[1]
  if scores[2] and not known then
    known = read_checkpoint(call('ZRANGEBYSCORE', key, -scores[2], -scores[2])[1]).own
  end
  if number and scores[3] then
    local record = call('ZRANGEBYSCORE', key, -scores[3], -scores[3])[1]
    existing = read_checkpoint(record)
    existing.record = record
    known = known or (existing.own and commit_id == made_id)
  end
  if known then
    local listing = 0
    if entry ~= '' and count_entries() > 0 then
      -- The writer may have died before the index listed the thread.
      local _, _, listed = read_mark()
      listing = listed
    end
    local parent = existing and existing.parent
    -- In a cluster, the writer may have died before it told the watchers.
    local told = ''
    if not KEYS[2] then
      told = {'i', incarnation, 's', sequence, 'o', owner, 'f', 1}
      if existing then told = {'i', incarnation, 's', sequence, 'o', owner, 'n', namespace, 'c', made_id} end
    end
    return {2, incarnation, epoch, next_value, owner, moves, updated, 0, existing and existing.sequence or 0,
      parent and '+' .. parent or '', existing and existing.saved .. existing.created or '', listing, told}
  end
elseif after ~= '' or entry ~= '' then
  local ended = call('ZRANGEBYSCORE', key, ENDED, ENDED)[1]
  if ended then
    chain = '+' .. sub(ended, 2)
    if chain == '+' .. commit_id then
      local listing = 0
      if entry ~= '' and count_entries() > 0 then
        local _, _, listed = read_mark()
        listing = listed
      end
      return {2, '', 0, 0, '', 0, '', 0, 0, '', '', listing, ''}
    end
  end
end

local lease_space = owner or (user == '*' and '-' or user)

-- deleted, epoch. A deletion that is retried because its answer was lost is allowed.
if basis ~= '' and (header or whole ~= 't') then
  if incarnation ~= basis then return {0, 'deleted', '', ''} end
  if epoch ~= tonumber(basis_epoch) then return {0, 'epoch', '', epoch} end
end

-- after
if after ~= '' and after ~= chain then return {0, 'after', chain, ''} end

-- as_of. A deletion that is retried is allowed.
if as_of ~= '' and tonumber(as_of) ~= (sequence or 0) and (header or whole ~= 't') then return {0, 'as_of', '', sequence or 0} end
-- first. If this commit deletes the thread, it applies to the new one.
local kept = header and whole ~= 't'
if first_value ~= '' and tonumber(first_value) ~= (kept and next_value or 0) then
  return {0, 'first', '', kept and next_value or 0}
end

-- fence
if fence ~= '' then
  local lease = lease_in(lease_space)
  local token = lease and lease.token
  if token ~= tonumber(fence) then return {0, 'fence', '', token or ''} end
end
