-- Takes, renews or returns a thread's lease: one holder at a time. Asks the caller for a token if a
-- new holder needs one.
local user, holder, now, expires = next_argument(), next_argument(), next_argument(), next_argument()
local returns, token, patience = next_argument() == '1', tonumber(next_argument()), next_argument()

local t = read_thread()
if t and not open_to(t.owner, user) then return {'owner', t.owner} end
local space = t and t.owner or (user == '*' and '-' or user)
local last = lease_in(space)
local since
if last and last.expires > now then
  if last.holder ~= holder then return {'lease', last.token, last.since, last.expires, last.holder} end
  token, since = last.token, last.since
elseif returns then
  if last then return {'lease', last.token, last.since, last.expires, last.holder} end
  return {'lease', 0, now, now, holder}
elseif not token or (last and token <= last.token) then
  -- Tokens must grow: one that was drawn before the last was given is too small.
  return {'token', last and last.token or 0}
else
  since = now
end
-- A removal comes first, so a server whose memory is full accepts the script, unless it would
-- create a key.
if t or last then call('ZREM', key, last and last.text or '') end
call('ZADD', key, LEASE, format('L2 %.0f ', token) .. since .. ' ' .. expires .. ' ' .. #space .. ' ' .. space .. ' ' .. holder)
-- A lease without a thread expires. With a thread, it goes when the thread goes. Journal entries of
-- a deleted thread stay until they are trimmed.
if not t and count_entries() == 0
  and ((call('ZCOUNT', key, LEASE, LEASE) == 1 and not end_of_missing()) or call('PTTL', key) < tonumber(patience)) then
  call('PEXPIRE', key, patience)
end
return {'lease', token, since, expires, holder}
