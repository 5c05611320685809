-- Readers of arguments and of a thread's records (layout.lua has the layout). Nothing here writes.
local position = 0

local function next_argument()
  position = position + 1
  return ARGV[position]
end

local function next_number()
  return tonumber(next_argument())
end

-- Returns an optional argument: nil for '', else the text after the '+'.
local function next_optional()
  local given = next_argument()
  if given == '' then return nil end
  return sub(given, 2)
end

local function between(first, last)
  return call('ZRANGEBYSCORE', key, first, last)
end

-- Returns the thread that a header describes.
local function thread_of(text)
  if sub(text, 1, 2) ~= 'H1' then error(DAMAGED) end
  local _, incarnation, sequence, epoch, next_value, last_message, groups, spaces, checkpoints, messages, tool_calls, state_size,
    message_size, ordinal, moves, expires, created, updated, head_size, rest = unpack_from(HEADER_FORMAT, text)
  return {text = text, incarnation = incarnation, sequence = sequence, epoch = epoch, next_value = next_value,
    last_message = last_message, groups = groups, spaces = spaces, checkpoints = checkpoints, messages = messages,
    tool_calls = tool_calls, state_size = state_size, message_size = message_size, ordinal = ordinal, moves = moves,
    expires = expires, created = created, updated = updated, head = sub(text, rest, rest + head_size - 1),
    owner = sub(text, rest + head_size)}
end

-- Returns the thread; nil if there is none (there may be a lease all the same).
local function read_thread()
  local text = between(HEADER, HEADER)[1]
  return text and thread_of(text)
end

local function open_to(owner, user)
  return owner == '-' or user == '*' or owner == user
end

-- Returns the thread; nil if there is none or it is another user's.
local function visible_thread(user)
  local t = read_thread()
  if t and open_to(t.owner, user) then return t end
  return nil
end

-- Namespaces

-- Returns the score of a name; nil if there is none.
local function score_of(name)
  local score = call('ZSCORE', key, name)
  if not score then return nil end
  return tonumber(score)
end

-- Returns where the checkpoints of a namespace begin; nil if it has none.
local function space_base(namespace)
  if namespace == '' then return CHECKPOINTS end
  local score = score_of('n' .. namespace)
  return score and CHECKPOINTS + (score - SPACES) * SPACE
end

local function all_bases(t)
  local bases = {CHECKPOINTS}
  -- Not more than there are names, because the header may be damaged.
  for number = 1, math.min(t.spaces, call('ZCOUNT', key, SPACES, SPACES + MOST_SPACES)) do bases[number + 1] = CHECKPOINTS + number * SPACE end
  return bases
end

local function name_of_checkpoint(base, id)
  return format('c%.0f:', (base - CHECKPOINTS) / SPACE) .. id
end

-- Returns the score of a checkpoint's record; nil if there is none.
local function place_of(base, id)
  local score = score_of(name_of_checkpoint(base, id))
  return score and -score
end

local function run_of(record, c)
  local size = unpack_from('>I3', record, c.run_at)
  if size == 0 then return nil end
  return sub(record, c.run_at + 3, c.run_at + 1 + size)
end

-- Returns where the info ends. The rest of the record is needed only for the state.
local function end_of_info(record, c)
  local run_size = unpack_from('>I3', record, c.run_at)
  local at = c.run_at + 3 + (run_size > 0 and run_size - 1 or 0)
  return at + 3 + unpack_from('>I4', record, at)
end

local function covers_of(record, c)
  local at = end_of_info(record, c) + 1
  local size = unpack_from('>I4', record, at)
  return sub(record, at + 4, at + 3 + size)
end

-- Appends the ranges packed in `covers` (by `pack_ranges` in Python) to `ranges`.
local function unpack_ranges(covers, ranges)
  local numbers, count, number, scale = {}, 0, 0, 1
  for at = 1, #covers do
    local value = byte(covers, at)
    if value >= 128 then
      number = number + (value - 128) * scale
      scale = scale * 128
    else
      count = count + 1
      numbers[count] = number + value * scale
      number, scale = 0, 1
    end
  end
  local last = 0
  for at = 1, count - 1, 2 do
    local distance = numbers[at]
    if distance % 2 == 0 then distance = distance / 2 else distance = -(distance + 1) / 2 end
    local first = last + distance
    last = first + numbers[at + 1]
    ranges[#ranges + 1] = {first, last}
  end
end

-- Returns up to `limit` records of the namespace at `base`, from `top` down, newest first, that
-- `wanted` accepts.
local function newest_of(base, top, limit, wanted)
  local found = {}
  local chunk = (limit and not wanted) and limit or 200
  if limit == 0 then return found end
  while true do
    local records = call('ZREVRANGEBYSCORE', key, top, base + 1, 'LIMIT', 0, chunk)
    for _, record in ipairs(records) do
      if not wanted or wanted(record) then
        found[#found + 1] = record
        if #found == limit then return found end
      end
    end
    if #records < chunk then return found end
    -- The score, because the record may be damaged.
    top = score_of(records[#records]) - 1
  end
end

-- Returns the newest records of several namespaces.
local function newest_of_all(bases, before, limit, wanted)
  if #bases == 1 then return newest_of(bases[1], bases[1] + before - 1, limit, wanted) end
  local found = {}
  for _, base in ipairs(bases) do
    for _, record in ipairs(newest_of(base, base + before - 1, limit, wanted)) do
      found[#found + 1] = {unpack_from('>I4', record, 2), record}
    end
  end
  table.sort(found, function(one, other) return one[1] > other[1] end)
  local newest = {}
  for at = 1, math.min(limit or #found, #found) do newest[at] = found[at][2] end
  return newest
end

-- Returns the thread's head: the main namespace's, or else the newest of the others.
local function head_of(t)
  return newest_of(CHECKPOINTS, CHECKPOINTS + SPACE - 1, 1)[1] or newest_of_all(all_bases(t), SPACE, 1)[1]
end

-- Values: 'V', first (6), count (4), digests (16 each), data.
local ROW_HEAD = 11

local function read_row(row)
  return unpack_from('>I6I4', row, 2)
end

-- Sorts and joins ranges.
local function union(ranges)
  table.sort(ranges, function(one, other) return one[1] < other[1] end)
  local joined = {}
  for _, range in ipairs(ranges) do
    local last = joined[#joined]
    if range[2] > range[1] then
      if last and range[1] <= last[2] then
        last[2] = math.max(last[2], range[2])
      else
        joined[#joined + 1] = {range[1], range[2]}
      end
    end
  end
  return joined
end

-- Returns the rows that hold any value of `ranges` (sorted and disjoint), each once, in order.
local function rows_of(ranges)
  local found, last = {}, -1
  for _, range in ipairs(ranges) do
    local first, stop = range[1], range[2]
    local before = call('ZREVRANGEBYSCORE', key, VALUES + first, VALUES, 'LIMIT', 0, 1)[1]
    local from = VALUES + first
    if before then
      local start, count = read_row(before)
      if start + count > first and start > last then
        found[#found + 1] = before
        last = start
      end
      from = VALUES + math.max(first, start + 1)
    end
    for _, row in ipairs(between(from, VALUES + stop - 1)) do
      local start = read_row(row)
      if start > last then
        found[#found + 1] = row
        last = start
      end
    end
  end
  return found
end

-- Messages: 'M', position (6), added by (4), tool calls (4), day (3), microseconds of the day (5),
-- text (4 + …), run (3 + …, 0 for none), id (3 + …), data. If the highest bit of the tool calls is
-- set, the input tokens (6) and output tokens (6) precede the text.
local HAS_TOKENS = 2 ^ 31

local function read_message(record)
  local at, sequence, tool_calls, day = unpack_from('>I6I4I4I3', record, 2)
  local text_at, input, output = 28, 0, 0
  if tool_calls >= HAS_TOKENS then
    tool_calls, text_at = tool_calls - HAS_TOKENS, 40
    input, output = unpack_from('>I6I6', record, 24)
  end
  return {position = at, sequence = sequence, tool_calls = tool_calls, day = day, input = input, output = output,
    text_at = text_at, text_size = unpack_from('>I4', record, text_at - 4)}
end

-- Returns the counted bytes of a message: its text and its data.
local function size_of_message(record, m)
  local at = m.text_at + m.text_size
  local run_size = unpack_from('>I3', record, at)
  at = at + 3 + (run_size > 0 and run_size - 1 or 0)
  local id_size = unpack_from('>I3', record, at)
  return m.text_size + #record - (at + 2 + id_size)
end

local function has_text(record, needle)
  local m = read_message(record)
  local _, stop = find(record, needle, m.text_at, true)
  return stop ~= nil and stop < m.text_at + m.text_size
end

-- Branch points (storage/branches.py): 'B', then parent (4) and start (4) of each.
local DAMAGED_POINTS = "CLEWFORMAT its branch points can't be read; its messages can, with branches='all'"

-- Returns the sequence numbers of the branch that ends with `upto`: first and last, newest first.
local function visible(points, upto)
  local ranges = {}
  for at = #points - 7, 2, -8 do
    local parent, start = unpack_from('>I4I4', points, at)
    if start <= upto then
      ranges[#ranges + 1] = {start, upto}
      upto = parent
    end
  end
  ranges[#ranges + 1] = {0, upto}
  return ranges
end

-- Returns whether one of the ranges that `visible` returned has the sequence number of a message.
local function is_said_in(ranges, record)
  local number = unpack_from('>I4', record, 8)
  local low, high = 1, #ranges
  while low < high do
    local middle = math.floor((low + high) / 2)
    if ranges[middle][1] <= number then high = middle else low = middle + 1 end
  end
  return ranges[low][1] <= number and number <= ranges[low][2]
end

-- Attachments: 'A', namespace, checkpoint and key (3 + … each), data. Each checkpoint's attachments
-- form a group.
local function group_of(name)
  local score = score_of(name)
  return score and -score
end

-- Returns the longest duration of these leases in ms, rounded up to days.
local function lasting(leases)
  local days = 0
  for _, text in ipairs(leases) do
    local lease = read_lease(text)
    days = math.max(days, sub(lease.expires, 1, 7) - sub(lease.since, 1, 7) + 1)
  end
  return days * 86400000
end
