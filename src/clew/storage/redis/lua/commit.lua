-- Applies a commit that no rule refused, atomically: if the commit adds anything, its first write
-- is one that Redis refuses when it is out of memory. Later writes can't be refused.
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

if t and adds and (existing or has('R')) then
  -- Changes nothing: it only gives Redis the chance to refuse.
  call('ZADD', key, HEADER, t.text)
end

local removed = 0
local commit_number = (kept and kept.sequence or 0) + 1

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

-- Writes a receipt for the commit that made checkpoint `c`, which is being removed or replaced,
-- unless the commit is too old.
local function keep_receipt(c)
  if c.own and c.sequence > commit_number - RECEIPTS_KEPT and not score_of('r' .. c.id) then
    add(receipt_at(c.sequence), 'r' .. c.id)
  end
end

local function drop_checkpoint(record, c, base)
  call('ZREM', key, record, name_of_checkpoint(base, c.id))
  keep_receipt(c)
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
  if whole == 's' then
    gone = kept.checkpoints
    for _, base in ipairs(all_bases(kept)) do
      local top = base + SPACE - 1
      while true do
        local records = call('ZREVRANGEBYSCORE', key, top, base + 1, 'LIMIT', 0, 500)
        for _, record in ipairs(records) do
          drop_checkpoint(record, read_checkpoint(record), base)
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
      local base = space_base(each[1])
      local place = base and place_of(base, each[2])
      if place then
        local record = between(place, place)[1]
        drop_checkpoint(record, read_checkpoint(record), base)
        gone = gone + 1
      end
    end
    for first in pairs(dropped) do take(VALUES + first) end
    kept.state_size = kept.state_size - dropped_size
  end
  if gone > 0 or whole == 's' or #removal.values > 0 then kept.epoch = kept.epoch + 1 end
  removed = removed + gone
else
  removed = delete()
end

-- The sequence number after which this commit's new branch starts; nil without a new branch.
local function branch_parent()
  if back and back ~= '^' then
    if back == '-' then return 0 end
    local score = score_of('m' .. sub(back, 2))
    return score and read_message(between(-score, -score)[1]).sequence
  end
  if made and not existing and (branches or back) then
    if not parent then return 0 end
    local from = space_base(namespace)
    local place = from and place_of(from, parent)
    return place and place - from
  end
  local points = #removal.checkpoints > 0 and between(POINTS, POINTS)[1]
  if not points then return nil end
  -- If the checkpoints of the newest branch are gone, the conversation goes back to the head's.
  local newest = newest_of(CHECKPOINTS, CHECKPOINTS + SPACE - 1, 1)[1]
  local number = newest and read_checkpoint(newest).sequence
  return number and number < unpack_from('>I4', points, #points - 3) and number or nil
end

local branch_from = kept and branch_parent() or nil

local created = not kept
local thread = kept
if created then
  thread = {incarnation = new_incarnation, sequence = 0, epoch = tonumber(first_epoch), next_value = 0, last_message = 0, groups = 0, spaces = 0,
    checkpoints = 0, messages = 0, tool_calls = 0, state_size = 0, message_size = 0, moves = 0,
    expires = 0, ordinal = ordinal, created = at, updated = at, head = '', owner = owner_now}
end

-- Returns where the namespace's checkpoints begin. A new namespace gets a number.
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

-- The sequence numbers of the branch that the messages are said on; nil if it does not matter. A
-- message that only other branches have moves here.
local said_here
if kept and has('S') then
  local points = between(POINTS, POINTS)[1]
  if branch_from then points = (points or 'B') .. pack('>I4I4', branch_from, commit_number) end
  if points then said_here = visible(points, SPACE) end
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
    if said_here and not is_said_in(said_here, record) then
      call('ZREM', key, 'm' .. id)
      thread.messages = thread.messages - 1
      sequence, place = thread.sequence, nil
    end
  end
  if not place then
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

-- Returns the record of a replacing checkpoint after the parent, with the time when the replaced one
-- was created, and both times. A copy brings that time itself, and a damaged one is not kept.
local function with_created(tail, created)
  local at = #made_id + 4 -- of the flags
  if byte(tail, at) >= 2 or #created < 8 then return tail, '' end
  local day, micros = unpack_from('>I3I5', created)
  if day < 1 or day > 3652059 or micros >= 86400000000 then return tail, '' end
  local saved = sub(tail, at + 6, at + 13)
  return sub(tail, 1, at - 1) .. string.char(byte(tail, at) + 2) .. sub(tail, at + 1, at + 13) .. created ..
    sub(tail, at + 14), saved .. created
end

local times = '' -- when the checkpoint was saved and created, if not by this commit
thread.sequence = commit_number
sequence = 0 -- the new checkpoint's
if row ~= '' then
  thread.next_value = thread.next_value + value_count
  thread.state_size = thread.state_size + #row - ROW_HEAD
  add(VALUES + first_value, row)
end
if made then
  base = base_for(namespace)
  sequence = thread.sequence
  if existing then
    sequence = existing.sequence
    keep_receipt(existing)
    made_tail, times = with_created(made_tail, existing.created)
    call('ZREM', key, existing.record)
    thread.state_size = thread.state_size - existing.size
  else
    thread.checkpoints = thread.checkpoints + 1
    add(-(base + sequence), name_of_checkpoint(base, made_id))
    if namespace == '' then thread.head = made_id end
  end
  add(base + sequence, 'C' .. pack('>I4', sequence) .. parent_field(parent) .. made_tail)
  thread.state_size = thread.state_size + made_size
end
for _, each in ipairs(merged) do
  for _, old in ipairs(each.gone) do
    take(VALUES + old[1])
    thread.state_size = thread.state_size - old[2]
  end
  thread.state_size = thread.state_size + #each.text - ROW_HEAD
  add(VALUES + each.first, each.text)
end
-- A new checkpoint with the commit's id in the main namespace serves as the receipt. A replaced
-- checkpoint keeps the number of an earlier commit, and one in another namespace is found only by
-- commits that make the same checkpoint.
if not made or commit_id ~= made_id or existing or namespace ~= '' then add(receipt_at(thread.sequence), 'r' .. commit_id) end
local most = math.min(#brought, RECEIPTS_KEPT + RECEIPTS_PRUNED)
for number = 1, most do
  add(receipt_at(thread.sequence) - 1 - most + number, 'r' .. brought[#brought - most + number])
end
if fork then
  thread.next_value, times = fork.next_value, fork.times
  for _, each in ipairs(fork.rows) do
    add(VALUES + read_row(each), each)
    thread.state_size = thread.state_size + #each - ROW_HEAD
  end
  add(FIELDS, fork.fields)
  add(ORIGIN, fork.origin)
  if fork.labels ~= '' then add(LABELS, fork.labels) end
end
flush()
if fork then
  for _, each in ipairs(fork.messages) do add_message(each[1], each[3], each[4], each[2]) end
  for _, each in ipairs(fork.attached) do add_attachment(fork.group, each[2], each[1]) end
end
for _, each in ipairs(attachments) do add_attachment(each.group, each.head, each.text) end
for _, each in ipairs(added) do add_message(each.id, each.tool_calls, each.size, each.tail) end
if described then
  if described.owner ~= thread.owner then
    thread.owner = described.owner
    thread.moves = thread.moves + 1
  end
  take(FIELDS)
  add(FIELDS, described.text)
  take(LABELS)
  if described.labels ~= '' then add(LABELS, described.labels) end
end
if thread.owner ~= lease_space then take(LEASE) end
if at > thread.updated then thread.updated = at end
if kept then call('ZREM', key, thread.text) end
if branch_from then
  local points = sub(between(POINTS, POINTS)[1] or 'B', 2) .. pack('>I4I4', branch_from, thread.sequence)
  take(POINTS)
  add(POINTS, 'B' .. sub(points, -8 * MOST_POINTS))
end
local chained = after ~= '' or entry ~= ''
if chained or thread.expires >= 2 then take(CHAIN) end
if chained then add(CHAIN, 'K' .. commit_id) end
if kept and (whole == 's' or #removal.checkpoints > 0) then
  local newest = newest_of(CHECKPOINTS, CHECKPOINTS + SPACE - 1, 1)[1]
  thread.head = newest and read_checkpoint(newest).id or ''
end
add(HEADER, pack(HEADER_FORMAT, 'H1', thread.incarnation, thread.sequence, thread.epoch, thread.next_value, thread.last_message,
  thread.groups, thread.spaces, thread.checkpoints, thread.messages, thread.tool_calls, thread.state_size, thread.message_size,
  thread.ordinal, thread.moves, (ttl == '' and 0 or 1) + (chained and 2 or 0), thread.created, thread.updated, #thread.head) ..
  thread.head .. thread.owner)
flush()
prune_receipts(thread.sequence)
local listing = 0
if entry ~= '' then
  listing = note(chain, thread.incarnation, ttl, entry)
elseif ttl == '' then
  call('PERSIST', key)
elseif count_entries() == 0 then
  call('PEXPIRE', key, ttl)
end

local function texts(list, field)
  local packed = {}
  for _, each in ipairs(list) do
    for at = 1, field do
      local text = field == 1 and each or each[at]
      packed[#packed + 1] = pack('>I4', #text) .. text
    end
  end
  return table.concat(packed)
end

local told = ''
local deleted = created and t
if made or #added > 0 or described or deleted or (kept and removed > 0) then
  local fields = {'i', thread.incarnation, 's', thread.sequence, 'o', thread.owner}
  local function field(name, value)
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
  local cleared = kept and removed > 0 and whole == 's'
  field('f', ((described or fork) and 1 or 0) + (deleted and 2 or 0) + (cleared and 4 or 0))
  if made then
    field('n', namespace)
    field('c', made_id)
  end
  if #added > 0 then
    local ids = {}
    for at, each in ipairs(added) do ids[at] = each.id end
    field('m', texts(ids, 1))
  end
  local former = t and (kept and owner_now or t.owner)
  if former and former ~= thread.owner then field('p', former) end
  if kept and removed > 0 then
    field('x', texts(removal.checkpoints, 2))
    field('y', texts(removal.messages, 1))
  end
  told = tell(fields)
end
return {1, thread.incarnation, thread.epoch, thread.next_value, thread.owner, thread.moves, thread.updated, removed, sequence,
  parent and '+' .. parent or '', times, listing, told}
