-- The end of the chain of a thread that does not exist: it outlives the thread, so that late commits
-- of the chain can't create the thread again.
--
-- It is 'E' and the id of the last commit of the chain that left no thread. It stays if the thread is
-- created again; then the thread's own chain counts.
local END_STAYS = 604800000 -- ms, as in clew.storage.protocol

local function end_of_missing()
  return call('ZRANGEBYSCORE', key, ENDED, ENDED)[1]
end

-- Lets a key without a thread and without journal entries expire, but not before its leases.
local function expire_alone()
  if count_entries() > 0 then return end
  local stays = MARK_STAYS + lasting(call('ZRANGEBYSCORE', key, LEASE, LEASE))
  if end_of_missing() then stays = math.max(stays, END_STAYS) end
  call('PEXPIRE', key, format('%.0f', stays))
end
