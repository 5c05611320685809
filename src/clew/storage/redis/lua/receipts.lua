-- Receipts, by which a thread recognises repeated commits: their layout, and the pruning that
-- bounds their number.
--
-- A receipt is 'r' and a commit's id. Commit number n has RECEIPT scores from RECEIPTS + RECEIPT *
-- n on: the last is its own receipt's, those before it are for the receipts that it brings along,
-- in order. A commit that made a checkpoint with its own id in the main namespace needs no receipt
-- while that checkpoint exists. Older versions wrote receipts into two other regions, at the number
-- of the commit.
local RECEIPTS, OLD_RECENT, OLD_LASTING = 123145302310912, 35184372088832, 52776558133248 -- 7, 2 and 3 times REGION
local RECEIPTS_REGION, RECEIPT = 17592186044416, 512
local RECEIPTS_KEPT, RECEIPTS_PRUNED = 256, 64 -- as in clew.storage.protocol

local function receipt_at(sequence)
  return RECEIPTS + sequence * RECEIPT + RECEIPT - 1
end

-- Prunes old receipts if there are too many after commit number `sequence`.
local function prune_receipts(sequence)
  local most, stop = RECEIPTS_KEPT + RECEIPTS_PRUNED, RECEIPTS + RECEIPTS_REGION - 1
  if redis.call('ZCOUNT', KEYS[1], RECEIPTS, stop) <= most then return end
  local last = sequence - RECEIPTS_KEPT
  redis.call('ZREMRANGEBYSCORE', KEYS[1], RECEIPTS, receipt_at(last))
  redis.call('ZREMRANGEBYSCORE', KEYS[1], OLD_RECENT, OLD_RECENT + last)
  redis.call('ZREMRANGEBYSCORE', KEYS[1], OLD_LASTING, OLD_LASTING + last)
  -- If commits brought along even more, the oldest go.
  local excess = redis.call('ZCOUNT', KEYS[1], RECEIPTS, stop) - most
  if excess > 0 then
    local first = redis.call('ZCOUNT', KEYS[1], '-inf', string.format('(%.0f', RECEIPTS))
    redis.call('ZREMRANGEBYRANK', KEYS[1], first, first + excess - 1)
  end
end
