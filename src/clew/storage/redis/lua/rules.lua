-- The rules that every commit meets, in the order of clew.storage.rules, up to the fence: deciding.lua has the others. Nothing is written
-- here. A refusal is {0, rule, '+' and the name that was found, the number that was found}. It does without the
-- functions of common.lua, which take time to create: the usual commit goes on to usual.lua from here.
local user, commit_id, at, ttl, new_incarnation, ordinal, first_epoch, basis, basis_epoch, after, entry, fence, parts, whole, as_of =
  unpack(ARGV, 1, 15)
-- The new values, and the checkpoint that is made: these arguments are left out if there is neither.
local first_value, value_count, row, namespace, made_id, wanted_parent, rejects, made_size, made_tail = '', '', '', '', '', ''
local read = 15 -- arguments so far
if byte(parts) == 67 then -- 'C'
  first_value, value_count, row, namespace, made_id, wanted_parent, rejects, made_size, made_tail = unpack(ARGV, 16, 24)
  read = 24
end

local made = wanted_parent ~= '' -- whether a checkpoint is made: a new one, or a fork's
local chain = '-' -- or '+' and the last commit of the thread's chain
local base, existing -- where the checkpoints of the namespace begin; the checkpoint that has the id of the one that is made
local version, incarnation, sequence, epoch, next_value, last_message, groups, spaces, checkpoints, messages, tool_calls, state_size,
  message_size, created_by, moves, expires, created, updated, head, owner

local header = call('ZRANGEBYSCORE', key, HEADER, HEADER)[1]
if header then
  if sub(header, 1, 2) ~= 'H1' then error(DAMAGED) end
  version, incarnation, sequence, epoch, next_value, last_message, groups, spaces, checkpoints, messages, tool_calls, state_size,
    message_size, created_by, moves, expires, created, updated, head, owner = unpack_from(HEADER_FORMAT, header)
  head, owner = sub(header, owner, owner + head - 1), sub(header, owner + head)
  -- What the header says counts: a chain that it does not know of was ended by a Clew of before there were chains.
  if expires >= 2 then chain = '+' .. sub(call('ZRANGEBYSCORE', key, CHAIN, CHAIN)[1] or '', 2) end

  -- owner
  if owner ~= '-' and user ~= '*' and user ~= owner then return {0, 'owner', '', ''} end

  -- receipt
  local number = made and 0
  if made and namespace ~= '' then
    number = call('ZSCORE', key, 'n' .. namespace)
    number = number and number - SPACES
  end
  if number then base = CHECKPOINTS + number * SPACE end
  local own = 'c0:' .. commit_id
  local scores = call('ZMSCORE', key, 'r' .. commit_id, own, number and 'c' .. number .. ':' .. made_id or own)
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
      -- Whoever entered it may have died before the index had it.
      local _, _, listed = read_mark()
      listing = listed
    end
    local parent = existing and existing.parent
    return {2, incarnation, epoch, next_value, owner, moves, updated, 0, existing and existing.sequence or 0,
      parent and '+' .. parent or '', existing and existing.stamp or '', listing}
  end
end

-- deleted, epoch: a deletion that comes again, because its answer was lost, finds what it wants.
if basis ~= '' and (header or whole ~= 't') then
  if incarnation ~= basis then return {0, 'deleted', '', ''} end
  if epoch ~= tonumber(basis_epoch) then return {0, 'epoch', '', epoch} end
end

-- after
if after ~= '' and after ~= chain then return {0, 'after', chain, ''} end

-- as_of, first: of the thread that is left when this commit has deleted the one that is there
local kept = header and whole ~= 't'
if as_of ~= '' and tonumber(as_of) ~= (kept and sequence or 0) then return {0, 'as_of', '', kept and sequence or 0} end
if first_value ~= '' and tonumber(first_value) ~= (kept and next_value or 0) then
  return {0, 'first', '', kept and next_value or 0}
end

-- fence
if fence ~= '' then
  local lease = call('ZRANGEBYSCORE', key, LEASE, LEASE)[1]
  local token = lease and tonumber(match(lease, '^L1 (%d+) '))
  if token ~= tonumber(fence) then return {0, 'fence', '', token or ''} end
end
