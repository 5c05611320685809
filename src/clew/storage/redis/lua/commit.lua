-- Applies the commit that deciding.lua let through, whole: the first write is one that Redis refuses when it is out of memory,
-- unless the commit only takes things away, and none after it can be refused.
local additions = {}

local function flush()
  for from = 1, #additions, AT_ONCE do
    call('ZADD', key, unpack(additions, from, math.min(from + AT_ONCE - 1, #additions)))
  end
  additions = {}
end

local function add(score, member)
  additions[#additions + 1] = score
  additions[#additions + 1] = member
end

local function take(score)
  call('ZREMRANGEBYSCORE', key, score, score)
end

if t and has('R') and adds then
  -- Writes nothing new: it is only there to be refused.
  call('ZADD', key, HEADER, t.text)
end

local removed = 0

local function drop_group(name)
  local group = group_of(name)
  if not group then return end
  for _, each in ipairs(between(group, group)) do
    local at = 2
    for _ = 1, 3 do at = at + 3 + unpack_from('>I3', each, at) end
    kept.state_size = kept.state_size - (#each - at + 1)
  end
  take(group)
  call('ZREM', key, name)
end

local function drop_checkpoint(c, base)
  call('ZREM', key, c.record, name_of_checkpoint(base, c.id))
  if c.own then add(LASTING + c.sequence, 'r' .. c.id) end
  kept.checkpoints = kept.checkpoints - 1
  kept.state_size = kept.state_size - c.size
end

if kept then
  for _, id in ipairs(removal.messages) do
    local score = call('ZSCORE', key, 'm' .. id)
    if score then
      local record = between(-tonumber(score), -tonumber(score))[1]
      local m = read_message(record)
      call('ZREM', key, record, 'm' .. id)
      kept.messages, kept.tool_calls = kept.messages - 1, kept.tool_calls - m.tool_calls
      kept.message_size = kept.message_size - size_of_message(record, m)
      removed = removed + 1
    end
  end
  local gone = 0
  if removal.whole == 's' then
    gone = kept.checkpoints
    for _, base in ipairs(all_bases(kept)) do
      local top = base + SPACE - 1
      while true do
        local records = call('ZREVRANGEBYSCORE', key, top, base + 1, 'LIMIT', 0, 500)
        for _, record in ipairs(records) do
          local c = read_checkpoint(record)
          c.record = record
          drop_checkpoint(c, base)
          top = base + c.sequence - 1
        end
        flush()
        if #records < 500 then break end
      end
    end
    call('ZREMRANGEBYSCORE', key, GROUPS, GROUPS + REGION - 1)
    call('ZREMRANGEBYSCORE', key, -(GROUPS + REGION - 1), -GROUPS)
    call('ZREMRANGEBYSCORE', key, VALUES, VALUES + REGION - 1)
    kept.state_size = 0
  else
    for _, each in ipairs(removal.checkpoints) do
      drop_group(each[3])
      local c = stored(each[1], each[2])
      if c then
        drop_checkpoint(c, space_base(each[1]))
        gone = gone + 1
      end
    end
    for first in pairs(dropped) do take(VALUES + first) end
    kept.state_size = kept.state_size - dropped_size
  end
  if gone > 0 or removal.whole == 's' or #removal.values > 0 then kept.epoch = kept.epoch + 1 end
  removed = removed + gone
else
  removed = delete()
end

local created = not kept
local thread = kept
if created then
  thread = {incarnation = incarnation, sequence = 0, epoch = first_epoch, next_value = 0, last_message = 0, groups = 0, spaces = 0,
    checkpoints = 0, messages = 0, tool_calls = 0, state_size = 0, message_size = 0, moves = 0,
    expires = 0, ordinal = ordinal, created = at, updated = at, owner = owner}
end

-- The number of a namespace, given when its first checkpoint comes.
local function base_for(namespace)
  local base = space_base(namespace)
  if not base then
    thread.spaces = thread.spaces + 1
    call('ZADD', key, SPACES + thread.spaces, 'n' .. namespace)
    base = CHECKPOINTS + thread.spaces * SPACE
  end
  return base
end

local function parent_field(id)
  if not id then return pack('>I3', 0) end
  return pack('>I3', #id + 1) .. id
end

local function add_message(id, tool_calls, size, tail)
  local score = call('ZSCORE', key, 'm' .. id)
  local sequence, place = thread.sequence, nil
  if score then
    place = -tonumber(score)
    local record = between(place, place)[1]
    local m = read_message(record)
    sequence = m.sequence
    thread.tool_calls = thread.tool_calls - m.tool_calls
    thread.message_size = thread.message_size - size_of_message(record, m)
    call('ZREM', key, record)
  else
    thread.last_message = thread.last_message + 1
    thread.messages = thread.messages + 1
    place = MESSAGES + thread.last_message
  end
  thread.tool_calls = thread.tool_calls + tool_calls
  thread.message_size = thread.message_size + size
  call('ZADD', key, place, 'M' .. pack('>I6I4', place - MESSAGES, sequence) .. tail, -place, 'm' .. id)
end

local function add_attachment(name, head, text)
  local group = group_of(name)
  if not group then
    thread.groups = thread.groups + 1
    group = GROUPS + thread.groups
    call('ZADD', key, -group, name)
  else
    for _, each in ipairs(between(group, group)) do
      if sub(each, 1, head) == sub(text, 1, head) then
        if keep then return end
        thread.state_size = thread.state_size - (#each - head)
        call('ZREM', key, each)
      end
    end
  end
  thread.state_size = thread.state_size + #text - head
  call('ZADD', key, group, text)
end

local sequence, stamp = 0, ''
thread.sequence = thread.sequence + 1
if fork then
  thread.next_value = fork.next_value
  if not (new and new.namespace == fork.namespace and new.id == fork.id) then
    local base = base_for(fork.namespace)
    add(base + thread.sequence, 'C' .. pack('>I4', thread.sequence) .. parent_field(nil) .. fork.record_tail)
    add(-(base + thread.sequence), name_of_checkpoint(base, fork.id))
    thread.checkpoints, thread.state_size = 1, fork.size
    sequence, stamp = thread.sequence, fork.stamp
  end
  for _, row in ipairs(fork.rows) do
    add(VALUES + read_row(row), row)
    thread.state_size = thread.state_size + #row - ROW_HEAD
  end
  add(FIELDS, fork.fields)
  add(ORIGIN, fork.origin)
  flush()
  for _, each in ipairs(fork.messages) do add_message(each[1], each[3], each[4], each[2]) end
  for _, each in ipairs(fork.attached) do add_attachment(fork.group, each[2], each[1]) end
  if new then thread.sequence = thread.sequence + 1 end
end
if values then
  thread.next_value = values.first + values.count
  thread.state_size = thread.state_size + #values.text - ROW_HEAD
  add(VALUES + values.first, values.text)
end
if #merged > 0 then
  flush()
  for _, row in ipairs(merged) do
    for _, each in ipairs(row.gone) do
      take(VALUES + each[1])
      thread.state_size = thread.state_size - each[2]
    end
    if row.takes_values then
      take(VALUES + values.first)
      thread.state_size = thread.state_size - (#values.text - ROW_HEAD)
    end
    thread.state_size = thread.state_size + #row.text - ROW_HEAD
    add(VALUES + row.first, row.text)
  end
end
if new then
  local base = base_for(new.namespace)
  sequence, stamp = thread.sequence, ''
  if existing then
    sequence = existing.sequence
    if existing.own then add(LASTING + sequence, 'r' .. existing.id) end
    call('ZREM', key, existing.record)
    thread.state_size = thread.state_size - existing.size
  else
    thread.checkpoints = thread.checkpoints + 1
    add(-(base + sequence), name_of_checkpoint(base, new.id))
  end
  add(base + sequence, 'C' .. pack('>I4', sequence) .. parent_field(parent) .. new.tail)
  thread.state_size = thread.state_size + new.size
end
if made then
  if commit_id ~= made.id then add(LASTING + thread.sequence, 'r' .. commit_id) end
else
  add(RECENT + thread.sequence, 'r' .. commit_id)
end
flush()
for _, each in ipairs(attachments) do add_attachment(each.group, each.head, each.text) end
for _, each in ipairs(messages) do add_message(each.id, each.tool_calls, each.size, each.tail) end
if described then
  if described.owner ~= thread.owner then
    thread.owner = described.owner
    thread.moves = thread.moves + 1
  end
  take(FIELDS)
  add(FIELDS, described.text)
end
if at > thread.updated then thread.updated = at end
if kept then call('ZREM', key, thread.text) end
local chained = after ~= '' or entry ~= ''
if chained or thread.expires >= 2 then take(CHAIN) end
if chained then add(CHAIN, 'K' .. commit_id) end
local head = newest_of(CHECKPOINTS, CHECKPOINTS + SPACE - 1, 1)[1]
head = head and read_checkpoint(head).id or ''
add(HEADER, pack(HEADER_FORMAT, 'H1', thread.incarnation, thread.sequence, thread.epoch, thread.next_value, thread.last_message,
  thread.groups, thread.spaces, thread.checkpoints, thread.messages, thread.tool_calls, thread.state_size, thread.message_size,
  thread.ordinal, thread.moves, (ttl == '' and 0 or 1) + (chained and 2 or 0), thread.created, thread.updated, #head) .. head .. thread.owner)
flush()
if thread.sequence % 64 == 0 then
  call('ZREMRANGEBYSCORE', key, RECENT, RECENT + thread.sequence - RECEIPTS_KEPT - 1)
end
local listing = 0
if entry ~= '' then
  listing = note(chain, thread.incarnation, ttl, entry)
elseif ttl == '' then
  call('PERSIST', key)
elseif count_entries() == 0 then
  call('PEXPIRE', key, ttl)
end
return applied(thread, false, sequence, parent, stamp, removed, listing)
