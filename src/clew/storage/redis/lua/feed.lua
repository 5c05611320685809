-- The feed: tells watchers what a commit changed, in the same script, if anybody watches.
--
-- KEYS[2] is the feed, a stream that exists while somebody watches. In a cluster it lies in another
-- slot: KEYS[2] is missing, and the caller writes the fields that are returned. Fields: i incarnation, s
-- sequence, o owner, f flags (1 described, 2 deleted, 4 all checkpoints removed), n namespace and c id of
-- the checkpoint, m ids of messages, p former owner, x removed checkpoints (namespace, id), y removed
-- messages. Several texts are packed into one field, each with its size (4).
local FEED_LENGTH = 50000 -- as in clew.storage.feed

local function tell(fields)
  if not KEYS[2] then return fields end
  if redis.call('EXISTS', KEYS[2]) == 1 then
    redis.call('XADD', KEYS[2], 'MAXLEN', '~', FEED_LENGTH, '*', 't', KEYS[1], unpack(fields))
  end
  return ''
end
