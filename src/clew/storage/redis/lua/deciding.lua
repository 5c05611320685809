-- Reads a commit from the arguments and decides what comes of it, before anything is written: whoever is refused left no trace.
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
-- After which commit of the chain it comes ('' if that is not said), the epoch of a new thread, the entry in the journal ('' for none).
local after, first_epoch, entry = '', 0, ''
if has('N') then after, first_epoch, entry = next_argument(), next_number(), next_argument() end
local adds = find(parts, '[^RN]') ~= nil

-- Owner and receipt

local t = read_thread()
local made = new or fork
local chain = chain_of(t)

local function applied(thread, repeated, sequence, parent, stamp, removed, listing)
  if not thread then return {1, '', 0, 0, '', 0, '', removed, 0, '', '', listing} end
  return {repeated and 2 or 1, thread.incarnation, thread.epoch, thread.next_value, thread.owner, thread.moves, thread.updated,
    removed, sequence, parent and '+' .. parent or '', stamp, listing}
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
    local listing = 0
    if entry ~= '' and count_entries() > 0 then
      -- Whoever entered it may have died before the index had it.
      local _, _, known = read_mark()
      listing = known
    end
    if existing then return applied(t, true, existing.sequence, existing.parent, existing.stamp, 0, listing) end
    return applied(t, true, 0, nil, '', 0, listing)
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
if after ~= '' and after ~= chain then return refuse('chain', chain) end
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
  if call('ZCOUNT', key, JOURNAL, JOURNAL_END) == 0 then
    call('UNLINK', key)
  else
    call('ZREMRANGEBYSCORE', key, '-inf', JOURNAL - 1)
    call('ZREMRANGEBYSCORE', key, JOURNAL_END + 1, '+inf')
    if count_entries() == 0 then call('PEXPIRE', key, MARK_STAYS) end
  end
  return t.checkpoints + t.messages
end

if not kept and not adds then
  local removed, listing = delete(), 0
  if entry ~= '' then listing = note(chain, t and t.incarnation or string.rep('\0', 20), ttl, entry) end
  return applied(nil, false, 0, nil, '', removed, listing)
end
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
