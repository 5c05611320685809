-- Fast path for most commits: appends a checkpoint and its new values to the main namespace's head
-- of an existing thread, and leaves exactly what commit.lua would leave. No rule of
-- content_rules.lua can refuse such a commit.
if parts == 'C' and made and kept and namespace == '' and not existing and head ~= ''
  and (wanted_parent == '^' or wanted_parent == '+' .. head) then
  sequence = sequence + 1
  state_size = state_size + tonumber(made_size)
  if at > updated then updated = at end
  if row ~= '' then
    next_value = next_value + tonumber(value_count)
    state_size = state_size + #row - 11
  end
  local place = CHECKPOINTS + sequence
  local chained = after ~= '' or entry ~= ''
  local record = pack('>c1I4I3', 'C', sequence, #head + 1) .. head .. made_tail
  local text = pack(HEADER_FORMAT, 'H1', incarnation, sequence, epoch, next_value, last_message, groups, spaces, checkpoints + 1,
    messages, tool_calls, state_size, message_size, created_by, moves, (ttl == '' and 0 or 1) + (chained and 2 or 0), created,
    updated, #made_id) .. made_id .. owner
  if row ~= '' then
    call('ZADD', key, HEADER, text, place, record, -place, 'c0:' .. made_id, VALUES + tonumber(first_value), row)
  else
    call('ZADD', key, HEADER, text, place, record, -place, 'c0:' .. made_id)
  end
  call('ZREM', key, header)
  if commit_id ~= made_id then
    call('ZADD', key, receipt_at(sequence), 'r' .. commit_id)
    prune_receipts(sequence)
  end
  if chained or expires >= 2 then call('ZREMRANGEBYSCORE', key, CHAIN, CHAIN) end
  if chained then call('ZADD', key, CHAIN, 'K' .. commit_id) end
  local listing = 0
  if entry ~= '' then
    listing = note(chain, incarnation, ttl, entry)
  elseif ttl == '' then
    if expires % 2 == 1 then call('PERSIST', key) end
  elseif count_entries() == 0 then
    call('PEXPIRE', key, ttl)
  end
  local told = tell({'i', incarnation, 's', sequence, 'o', owner, 'n', '', 'c', made_id})
  return {1, incarnation, epoch, next_value, owner, moves, updated, 0, sequence, '+' .. head, '', listing, told}
end
