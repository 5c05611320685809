-- Reads the rest of a commit from the arguments and checks the rules that concern its content
-- (rules.lua has the others). Nothing is written before every rule has passed.
local function refuse(rule, named, number)
  return {0, rule, named or '', number or ''}
end

local function has(part)
  return find(parts, part, 1, true) ~= nil
end

-- The commit's content, in the order of the arguments.

position = read
local removal = {checkpoints = {}, messages = {}, values = {}}
if has('R') then
  for number = 1, next_number() do removal.checkpoints[number] = {next_argument(), next_argument(), next_argument()} end
  for number = 1, next_number() do removal.messages[number] = next_argument() end
  for number = 1, next_number() do removal.values[number] = {next_number(), next_number()} end
end
local fork
if has('F') then
  fork = {found = next_argument(), rows = {}, messages = {}, attached = {}}
  if fork.found == '+' then
    fork.owner, fork.next_value, fork.fields, fork.origin = next_argument(), next_number(), next_argument(), next_argument()
    fork.times, fork.labels = next_argument(), next_argument()
    for number = 1, next_number() do fork.rows[number] = next_argument() end
    for number = 1, next_number() do fork.messages[number] = {next_argument(), next_argument(), next_number(), next_number()} end
    fork.group = next_argument()
    for number = 1, next_number() do fork.attached[number] = {next_argument(), next_number()} end
  end
end
local merged = {}
if has('G') then
  for number = 1, next_number() do
    merged[number] = {first = next_number(), count = next_number(), text = next_argument()}
  end
end
local attachments, added = {}, {}
local keep = false
if has('A') then
  keep = next_argument() == '1'
  for number = 1, next_number() do
    attachments[number] = {group = next_argument(), head = next_number(), text = next_argument()}
  end
end
if has('M') then
  for number = 1, next_number() do
    added[number] = {id = next_argument(), tool_calls = next_number(), size = next_number(), tail = next_argument()}
  end
end
local described
if has('D') then described = {owner = next_argument(), text = next_argument(), labels = next_argument()} end
local brought = {}
if has('P') then
  for number = 1, next_number() do brought[number] = next_argument() end
end
local back -- where a branch begins: '^' after the parent, '-' before all messages, '+' and a message's id
if has('B') then back = next_argument() end
local adds = made or row ~= '' or find(parts, '[^CRPB]') ~= nil

local t = header and thread_of(header)
kept = kept and t

-- A deletion of the whole thread ends here.

local function delete()
  if not t then return 0 end
  -- Leases that other users took before this thread existed stay.
  local others = {}
  for _, text in ipairs(between(LEASE, LEASE)) do
    local lease = read_lease(text)
    if t.owner ~= '' and lease.space and lease.space ~= t.owner then others[#others + 1] = text end
  end
  local ended = end_of_missing()
  if call('ZCOUNT', key, JOURNAL, JOURNAL_END) == 0 then
    call('UNLINK', key)
  else
    call('ZREMRANGEBYSCORE', key, '-inf', JOURNAL - 1)
    call('ZREMRANGEBYSCORE', key, JOURNAL_END + 1, '+inf')
  end
  for _, text in ipairs(others) do call('ZADD', key, LEASE, text) end
  if ended then call('ZADD', key, ENDED, ended) end
  expire_alone()
  return t.checkpoints + t.messages
end

if not kept and not adds then
  local removed, listing, told = delete(), 0, ''
  if after ~= '' or entry ~= '' then
    call('ZADD', key, ENDED, 'E' .. commit_id)
    for _, text in ipairs(between(ENDED, ENDED)) do
      if text ~= 'E' .. commit_id then call('ZREM', key, text) end
    end
    expire_alone()
  end
  if entry ~= '' then listing = note(chain, t and t.incarnation or string.rep('\0', 20), ttl, entry) end
  if t then told = tell({'i', t.incarnation, 's', t.sequence, 'o', t.owner, 'f', 2}) end
  return {1, '', 0, 0, '', 0, '', removed, 0, '', '', listing, told}
end

-- exists, source, origin

if fork then
  if kept then return refuse('exists') end
  if fork.found ~= '+' then return refuse(fork.found) end
end

-- merge, and the rows that go. The sizes are those of their content.

local dropped, dropped_size = {}, 0
if kept and whole == '' then
  for _, range in ipairs(removal.values) do
    for _, each in ipairs(between(VALUES + range[1], VALUES + range[2] - 1)) do
      local first, count = read_row(each)
      if first + count <= range[2] then
        dropped[first] = true
        dropped_size = dropped_size + #each - ROW_HEAD
      end
    end
  end
end
for place, each in ipairs(merged) do
  local stop, reached = each.first + each.count, each.first
  each.gone = {}
  for _, old in ipairs(kept and whole == '' and between(VALUES + each.first, VALUES + stop - 1) or {}) do
    local first, count = read_row(old)
    if not dropped[first] then
      if first ~= reached then break end
      reached = first + count
      each.gone[#each.gone + 1] = {first, #old - ROW_HEAD}
    end
  end
  if reached ~= stop or #each.gone == 0 then return refuse('merge', nil, place) end
end

-- head, parent. A replaced checkpoint keeps its parent and can't conflict.

local parent
local branches = false -- whether the parent is not the main namespace's head
local gone = {}
for _, each in ipairs(removal.checkpoints) do
  if each[1] == namespace then gone[each[2]] = true end
end
if not kept or whole == 's' then base = nil end
if not base or gone[made_id] then existing = nil end
if existing then
  parent = existing.parent
elseif made and not fork then
  local top
  if base == CHECKPOINTS and not next(gone) then
    if head ~= '' then top = head end
  elseif base then
    local newest = newest_of(base, base + SPACE - 1, 1, next(gone) and function(each) return not gone[read_checkpoint(each).id] end)[1]
    top = newest and read_checkpoint(newest).id
  end
  if wanted_parent == '^' then
    parent = top
  else
    if wanted_parent ~= '-' then parent = sub(wanted_parent, 2) end
    if parent ~= top then
      local named = top and '+' .. top
      if rejects == '1' then return refuse('head', named) end
      if parent and basis == '' and not (base and not gone[parent] and place_of(base, parent)) then
        return refuse('parent', named)
      end
      branches = namespace == ''
    end
  end
end

if made and not base and kept and namespace ~= '' and kept.spaces >= MOST_SPACES and not space_base(namespace) then
  return refuse('spaces')
end

-- new_owner

local owner_now = kept and kept.owner
if not owner_now then
  owner_now = user
  if user == '*' then owner_now = fork and fork.owner or '-' end
end
if described and described.owner ~= owner_now and user ~= '*' then return refuse('new_owner') end
