-- Applies one commit to one thread, whole or not at all: everything is decided before the first write, and the first
-- write is one that Redis refuses when it is out of memory, unless the commit only takes things away.
local user, commit_id, at, ttl = next_argument(), next_argument(), next_argument(), next_argument()
local incarnation, ordinal, basis, basis_epoch = next_argument(), next_number(), next_argument(), next_argument()
local fence, parts = next_argument(), next_argument()

local function refuse(...)
  return {0, ...}
end

local function has(part)
  return find(parts, part, 1, true) ~= nil
end

-- What the commit brings, in the order of the arguments.

local removal = {whole = '', checkpoints = {}, messages = {}, values = {}}
if has('R') then
  removal.whole, removal.as_of = next_argument(), tonumber(next_argument())
  for number = 1, next_number() do removal.checkpoints[number] = {next_argument(), next_argument(), next_argument()} end
  for number = 1, next_number() do removal.messages[number] = next_argument() end
  for number = 1, next_number() do removal.values[number] = {next_number(), next_number()} end
end
local fork
if has('F') then
  fork = {namespace = next_argument(), id = next_argument(), rows = {}, messages = {}, attached = {}}
  fork.found = next_argument() == '+'
  if fork.found then
    fork.owner, fork.next_value, fork.fields, fork.origin = next_argument(), next_number(), next_argument(), next_argument()
    fork.record_tail, fork.size, fork.stamp = next_argument(), next_number(), next_argument()
    for number = 1, next_number() do fork.rows[number] = next_argument() end
    for number = 1, next_number() do fork.messages[number] = {next_argument(), next_argument(), next_number(), next_number()} end
    fork.group = next_argument()
    for number = 1, next_number() do fork.attached[number] = {next_argument(), next_number()} end
  end
end
local function next_row()
  return {first = next_number(), count = next_number(), text = next_argument()}
end
local values = has('V') and next_row() or nil
local merged = {}
if has('G') then
  for number = 1, next_number() do merged[number] = next_row() end
end
local new
if has('C') then
  new = {namespace = next_argument(), id = next_argument(), parent = next_argument(), reject = next_argument() == '1',
    size = next_number(), tail = next_argument()}
end
local attachments, messages = {}, {}
local keep = false
if has('A') then
  keep = next_argument() == '1'
  for number = 1, next_number() do
    attachments[number] = {group = next_argument(), head = next_number(), text = next_argument()}
  end
end
if has('M') then
  for number = 1, next_number() do
    messages[number] = {id = next_argument(), tool_calls = next_number(), size = next_number(), tail = next_argument()}
  end
end
local described
if has('D') then described = {owner = next_argument(), text = next_argument()} end

-- Owner and receipt

local t = read_thread()
local made = new or fork

local function applied(thread, repeated, sequence, parent, stamp, removed)
  if not thread then return {1, '', 0, 0, '', 0, '', removed, 0, '', ''} end
  return {repeated and 2 or 1, thread.incarnation, thread.epoch, thread.next_value, thread.owner, thread.moves, thread.updated,
    removed, sequence, parent and '+' .. parent or '', stamp}
end

-- The checkpoint that the commit makes, as it is stored.
local function stored(namespace, id)
  local base = space_base(namespace)
  local place = base and place_of(base, id)
  if not place then return nil end
  local record = between(place, place)[1]
  local c = read_checkpoint(record)
  c.record, c.place = record, place
  return c
end

local existing = t and made and stored(made.namespace, made.id) or nil
if t then
  if not open_to(t.owner, user) then return refuse('owner', t.owner) end
  if call('ZSCORE', key, 'r' .. commit_id) or (existing and existing.own and existing.id == commit_id) then
    if existing then return applied(t, true, existing.sequence, existing.parent, existing.stamp, 0) end
    return applied(t, true, 0, nil, '', 0)
  end
end

-- Basis, fence, origin

local kept = removal.whole ~= 't' and t or nil
if basis ~= '' and not (t == nil and removal.whole == 't') then
  if t == nil then return refuse('basis', '', 0) end
  if t.incarnation ~= basis or t.epoch ~= tonumber(basis_epoch) then
    return refuse('basis', t.incarnation, t.epoch)
  end
end
if removal.as_of and removal.as_of ~= (kept and kept.sequence or 0) then
  return refuse('as_of', kept and kept.sequence or 0)
end
if values and not fork and values.first ~= (kept and kept.next_value or 0) then
  return refuse('first', kept and kept.next_value or 0)
end
if fence ~= '' then
  local lease = read_lease()
  if not lease or lease.token ~= tonumber(fence) then return refuse('fence', lease and lease.token or '') end
end

local function delete()
  if not t then return 0 end
  call('UNLINK', key)
  return t.checkpoints + t.messages
end

if not kept and not find(parts, '[^R]') then return applied(nil, false, 0, nil, '', delete()) end
if fork then
  if kept then return refuse('exists') end
  if not fork.found then return refuse('origin') end
  if values and values.first ~= fork.next_value then return refuse('first', fork.next_value) end
end

-- Values: which rows go. The sizes are of what they hold.

local dropped, dropped_size = {}, 0
if kept and removal.whole == '' then
  for _, range in ipairs(removal.values) do
    for _, row in ipairs(between(VALUES + range[1], VALUES + range[2] - 1)) do
      local first, count = read_row(row)
      if first + count <= range[2] then
        dropped[first] = true
        dropped_size = dropped_size + #row - ROW_HEAD
      end
    end
  end
end
for _, row in ipairs(merged) do
  local stop = row.first + row.count
  local old = {}
  if kept and removal.whole == '' then
    old = between(VALUES + row.first, VALUES + stop - 1)
  elseif fork then
    for _, each in ipairs(fork.rows) do
      local first = read_row(each)
      if first >= row.first and first < stop then old[#old + 1] = each end
    end
  end
  local at = row.first
  local gone = {}
  for _, each in ipairs(old) do
    local first, count = read_row(each)
    if not dropped[first] then
      if first ~= at then break end
      at = first + count
      gone[#gone + 1] = {first, #each - ROW_HEAD}
    end
  end
  if values and values.first == at and at < stop then
    at = values.first + values.count
    row.takes_values = true
  end
  if at ~= stop then return refuse('merge', row.first, stop) end
  row.gone = gone
end

-- The checkpoint's parent. One that is replaced keeps its own, and meets no conflict.

local parent
if new then
  local base = kept and removal.whole ~= 's' and space_base(new.namespace) or nil
  local gone = {}
  for _, each in ipairs(removal.checkpoints) do
    if each[1] == new.namespace then gone[each[2]] = true end
  end
  if not base or gone[new.id] then existing = nil end
  if existing then
    parent = existing.parent
  else
    local head
    if fork and fork.namespace == new.namespace then
      head = fork.id
    elseif base then
      local record = newest_of(base, base + SPACE - 1, 1, next(gone) and function(each) return not gone[read_checkpoint(each).id] end)[1]
      head = record and read_checkpoint(record).id
    end
    local kind = sub(new.parent, 1, 1)
    if kind == '^' then
      parent = head
    else
      parent = kind == '+' and sub(new.parent, 2) or nil
      if parent ~= head then
        if new.reject then return refuse('head', head and '+' .. head or '') end
        if parent and basis == '' and not (base and not gone[parent] and place_of(base, parent)) then
          return refuse('parent', head and '+' .. head or '')
        end
      end
    end
  end
end

if new and kept and kept.spaces >= MOST_SPACES and not space_base(new.namespace) then return refuse('spaces') end

-- The owner

local owner = kept and kept.owner
if not owner then
  owner = user
  if user == '*' then owner = fork and fork.owner or '-' end
end
if described and described.owner ~= owner and user ~= '*' then return refuse('new_owner', owner) end

-- Everything is decided. Each write below is one that can't be refused once the first was let through.

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

if t and has('R') and find(parts, '[^R]') then
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
  thread = {incarnation = incarnation, sequence = 0, epoch = 0, next_value = 0, last_message = 0, groups = 0, spaces = 0,
    checkpoints = 0, messages = 0, tool_calls = 0, state_size = 0, message_size = 0, moves = 0,
    ordinal = ordinal, created = at, updated = at, owner = owner}
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
local head = newest_of(CHECKPOINTS, CHECKPOINTS + SPACE - 1, 1)[1]
head = head and read_checkpoint(head).id or ''
add(HEADER, pack(HEADER_FORMAT, 'H1', thread.incarnation, thread.sequence, thread.epoch, thread.next_value, thread.last_message,
  thread.groups, thread.spaces, thread.checkpoints, thread.messages, thread.tool_calls, thread.state_size, thread.message_size,
  thread.ordinal, thread.moves, ttl == '' and 0 or 1, thread.created, thread.updated, #head) .. head .. thread.owner)
flush()
if thread.sequence % 64 == 0 then
  call('ZREMRANGEBYSCORE', key, RECENT, RECENT + thread.sequence - RECEIPTS_KEPT - 1)
end
if ttl ~= '' then call('PEXPIRE', key, ttl) else call('PERSIST', key) end
return applied(thread, false, sequence, parent, stamp, removed)
