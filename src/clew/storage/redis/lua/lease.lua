-- Takes, renews or gives back a thread's lease, by its holder only; asks for a token if a new holder needs one.
local user, holder, now, expires = next_argument(), next_argument(), next_argument(), next_argument()
local returns, token, patience = next_argument() == '1', tonumber(next_argument()), next_argument()

local t = read_thread()
if t and not open_to(t.owner, user) then return {'owner', t.owner} end
local last = read_lease()
local since
if last and last.expires > now then
  if last.holder ~= holder then return {'lease', last.token, last.since, last.expires, last.holder} end
  token, since = last.token, last.since
elseif returns then
  if last then return {'lease', last.token, last.since, last.expires, last.holder} end
  return {'lease', 0, now, now, holder}
elseif not token or (last and token <= last.token) then
  -- Greater than any before: a token that was drawn before the last one was given is of no use.
  return {'token', last and last.token or 0}
else
  since = now
end
-- Taking away comes first, so a server whose memory is full lets it through, unless it would be a key more.
if t or last then call('ZREM', key, last and last.text or '') end
call('ZADD', key, LEASE, format('L1 %.0f ', token) .. since .. ' ' .. expires .. ' ' .. holder)
-- A lease without a thread does not stay for ever; with one, it goes when the thread goes. What is left of the journal of a
-- thread that was there stays until it is trimmed.
if not t and count_entries() == 0 then call('PEXPIRE', key, patience) end
return {'lease', token, since, expires, holder}
