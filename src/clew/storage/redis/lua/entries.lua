-- Returns the number of a thread's journal entries, the oldest of them, and the thread's receipts
-- if requested (oldest first), from one snapshot.
local receipts = {}
if ARGV[2] == '1' then
  local found = {}
  for _, region in ipairs({{OLD_RECENT, RECEIPT}, {OLD_LASTING, RECEIPT}, {RECEIPTS, 1}}) do
    local first, scale = region[1], region[2]
    local members = redis.call('ZREVRANGEBYSCORE', KEYS[1], first + RECEIPTS_REGION - 1, first, 'WITHSCORES', 'LIMIT', 0,
      RECEIPTS_KEPT + RECEIPTS_PRUNED)
    for at = 1, #members, 2 do found[#found + 1] = {(members[at + 1] - first) * scale, string.sub(members[at], 2)} end
  end
  table.sort(found, function(one, other) return one[1] < other[1] end)
  for at = math.max(1, #found + 1 - RECEIPTS_KEPT - RECEIPTS_PRUNED), #found do receipts[#receipts + 1] = found[at][2] end
end
return {count_entries(), redis.call('ZRANGEBYSCORE', KEYS[1], JOURNAL + 1, JOURNAL_END, 'LIMIT', 0, ARGV[1]), receipts}
