-- The usual commit, before anything else is set up: a checkpoint from the head, and its new values, in a thread that is there.
-- Whatever is not so goes on to deciding.lua and commit.lua, which know all cases. The scores are explained in common.lua.
local usual = ({VC = 14, C = 11, VCN = 14, CN = 11})[ARGV[10]]
if usual then
  local call, key = redis.call, KEYS[1]
  local text = call('ZRANGEBYSCORE', key, 0, 0)[1]
  if text then
    local version, incarnation, sequence, epoch, next_value, last_message, groups, spaces, checkpoints, messages, tool_calls,
      state_size, message_size, ordinal, moves, expires, created, updated, head, at =
      struct.unpack('>c2c20I4I4I8I8I4I4I4I4I8I8I8I8I4I1c18c18I3', text)
    local owner = string.sub(text, at + head)
    if head == 0 then head = nil else head = string.sub(text, at, at + head - 1) end
    local first, row = usual, nil
    if first == 14 then row = ARGV[13] end
    local after, entry = ARGV[first + 6] or '', ARGV[first + 8] or ''
    local chain = '-'
    if expires >= 2 then chain = '+' .. string.sub(call('ZRANGEBYSCORE', key, 4, 4)[1] or '', 2) end
    local id, parent = ARGV[first + 1], ARGV[first + 2]
    local known = call('ZMSCORE', key, 'c0:' .. id, 'r' .. ARGV[2])
    if version == 'H1' and ARGV[first] == '' and head
      and (owner == '-' or ARGV[1] == '*' or ARGV[1] == owner)
      and (ARGV[7] == '' or (ARGV[7] == incarnation and tonumber(ARGV[8]) == epoch))
      and (not row or tonumber(ARGV[11]) == next_value)
      and ARGV[9] == '' and (after == '' or after == chain)
      and (parent == '^' or parent == '+' .. head) and not known[1] and not known[2] then
      sequence = sequence + 1
      checkpoints = checkpoints + 1
      state_size = state_size + tonumber(ARGV[first + 4])
      if ARGV[3] > updated then updated = ARGV[3] end
      if row then
        next_value = next_value + tonumber(ARGV[12])
        state_size = state_size + #row - 11
      end
      local place = 4503599627370496 + sequence
      local record = struct.pack('>c1I4I3', 'C', sequence, #head + 1) .. head .. ARGV[first + 5]
      local ttl = ARGV[4]
      local chained = after ~= '' or entry ~= ''
      local header = struct.pack('>c2c20I4I4I8I8I4I4I4I4I8I8I8I8I4I1c18c18I3', 'H1', incarnation, sequence, epoch, next_value,
        last_message, groups, spaces, checkpoints, messages, tool_calls, state_size, message_size, ordinal, moves,
        (ttl == '' and 0 or 1) + (chained and 2 or 0), created, updated, #id) .. id .. owner
      if row then
        call('ZADD', key, 0, header, place, record, -place, 'c0:' .. id, 105553116266496 + tonumber(ARGV[11]), row)
      else
        call('ZADD', key, 0, header, place, record, -place, 'c0:' .. id)
      end
      call('ZREM', key, text)
      if ARGV[2] ~= id then call('ZADD', key, 52776558133248 + sequence, 'r' .. ARGV[2]) end
      if chained or expires >= 2 then call('ZREMRANGEBYSCORE', key, 4, 4) end
      if chained then call('ZADD', key, 4, 'K' .. ARGV[2]) end
      local listing = 0
      if entry ~= '' then
        listing = note(chain, incarnation, ttl, entry)
      elseif ttl == '' then
        if expires % 2 == 1 then call('PERSIST', key) end
      elseif count_entries() == 0 then
        call('PEXPIRE', key, ttl)
      end
      return {1, incarnation, epoch, next_value, owner, moves, updated, 0, sequence, '+' .. head, '', listing}
    end
  end
end
