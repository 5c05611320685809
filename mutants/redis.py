"""Mutations of the Lua scripts for Redis, and of the Python code that makes their arguments."""

from __future__ import annotations

from mutants.mutation import Mutation


def _lua(rule: str, file: str, old: str, new: str) -> Mutation:
    return Mutation(rule, "redis", f"redis/lua/{file}.lua", old, new)


_LOSE_A_ROW = "call('ZREMRANGEBYSCORE', key, VALUES, VALUES)"

MUTATIONS = [
    _lua("owner", "rules", "if owner ~= '-' and user ~= '*' and user ~= owner then", "if false then"),
    _lua("receipt", "rules", "  if known then\n", "  if false then\n"),
    _lua("receipt", "rules", "local known = scores[1]\n", "local known\n"),
    _lua("receipt", "rules", "if scores[2] and not known then", "if false then"),
    _lua("receipt", "rules", "known = known or (existing.own and commit_id == made_id)", "known = known"),
    _lua("receipt", "fast_append", "  if commit_id ~= made_id then\n", "  if false then\n"),
    _lua("receipt", "commit", "if not made or commit_id ~= made_id or existing", "if not made or existing"),
    _lua("receipt", "commit", "  keep_receipt(c)\n", ""),
    _lua("receipt", "commit", "    keep_receipt(existing)\n", ""),
    _lua("receipt", "rules", "if chain == '+' .. commit_id then", "if false then"),
    _lua("after", "rules", "    chain = '+' .. sub(ended, 2)\n", ""),
    _lua("after", "content_rules", "    call('ZADD', key, ENDED, 'E' .. commit_id)\n", ""),
    _lua("after", "content_rules", "      if text ~= 'E' .. commit_id then", "      if false then"),
    _lua("after", "content_rules", "  if ended then call('ZADD', key, ENDED, ended) end\n", ""),
    _lua("kept", "receipts", "local last = sequence - RECEIPTS_KEPT", "local last = sequence - RECEIPTS_KEPT + 1"),
    _lua(
        "kept", "commit", "c.sequence > commit_number - RECEIPTS_KEPT", "c.sequence > commit_number - RECEIPTS_KEPT + 1"
    ),
    _lua("kept", "receipts", "RECEIPTS_KEPT, RECEIPTS_PRUNED = 256, 64", "RECEIPTS_KEPT, RECEIPTS_PRUNED = 191, 64"),
    _lua(
        "pruned",
        "receipts",
        "if redis.call('ZCOUNT', KEYS[1], RECEIPTS, stop) <= most then return end",
        "do return end",
    ),
    _lua("pruned", "receipts", "  if excess > 0 then\n", "  if false then\n"),
    _lua("pruned", "fast_append", "    prune_receipts(sequence)\n", ""),
    _lua("pruned", "commit", "prune_receipts(thread.sequence)\n", ""),
    _lua("planted", "commit", "for number = 1, most do", "for number = 1, 0 do"),
    _lua("deleted", "rules", "if incarnation ~= basis then return", "if false then return"),
    Mutation(
        "deleted",
        "redis",
        "redis/commits.py",
        "return new_id() if begin is None",
        "return 'same' * 5 if begin is None",
    ),
    _lua("epoch", "rules", "if epoch ~= tonumber(basis_epoch) then", "if false then"),
    _lua("epoch", "commit", "kept.epoch = kept.epoch + 1", "kept.epoch = kept.epoch"),
    _lua("after", "rules", "if after ~= '' and after ~= chain then", "if false then"),
    _lua("as_of", "rules", "if as_of ~= '' and tonumber(as_of)", "if false and tonumber(as_of)"),
    _lua("first", "rules", "if first_value ~= '' and tonumber(first_value)", "if false and tonumber(first_value)"),
    _lua("fence", "rules", "if token ~= tonumber(fence) then", "if false then"),
    _lua("fence", "rules", "if token ~= tonumber(fence) then", "if token and token < tonumber(fence) then"),
    _lua("fence", "layout", "if lease.space == space or not lease.space then", "if lease then"),
    _lua("fence", "commit", "if thread.owner ~= lease_space then take(LEASE) end\n", ""),
    _lua("fence", "content_rules", "if t.owner ~= '' and lease.space and lease.space ~= t.owner then", "if false then"),
    _lua("exists", "content_rules", "  if kept then return refuse('exists') end\n", ""),
    _lua("source", "source", "visible_thread(user)", "visible_thread('*')"),
    _lua("source", "content_rules", "if fork.found ~= '+' then", "if fork.found == 'origin' then"),
    _lua("origin", "source", "  if id then\n", "  if false then\n"),
    _lua("origin", "content_rules", "if fork.found ~= '+' then", "if fork.found == 'source' then"),
    _lua("merge", "content_rules", "      if first ~= reached then break end\n", ""),
    _lua("merge", "content_rules", "if reached ~= stop or #each.gone == 0 then", "if #each.gone == 0 then"),
    _lua("head", "content_rules", "if rejects == '1' then", "if false then"),
    _lua("head", "fast_append", "(wanted_parent == '^' or wanted_parent == '+' .. head)", "true"),
    _lua("parent", "content_rules", "if parent and basis == '' and not", "if false and not"),
    _lua("parent", "content_rules", "not (base and not gone[parent] and place_of", "not (base and place_of"),
    _lua(
        "new_owner",
        "content_rules",
        "if described and described.owner ~= owner_now and user ~= '*' then",
        "if false then",
    ),
    _lua("journal", "fast_append", "listing = note(chain, incarnation, ttl, entry)", "listing = 0"),
    _lua("journal", "commit", "listing = note(chain, thread.incarnation, ttl, entry)", "listing = 0"),
    _lua("journal", "content_rules", "  if entry ~= '' then listing = note(", "  if false then listing = note("),
    _lua("branch", "commit", "  add(POINTS, 'B' .. sub(points, -8 * MOST_POINTS))\n", ""),
    _lua(
        "branch",
        "commit",
        "  return number and number < unpack_from('>I4', points, #points - 3) and number or nil\n",
        "  return nil\n",
    ),
    _lua("branch", "commit", "    if said_here and not is_said_in(said_here, record) then", "    if false then"),
    _lua("branch", "commit", "    if back == '-' then return 0 end\n", "    if back == '-' then return nil end\n"),
    _lua(
        "feed",
        "fast_append",
        "local told = tell({'i', incarnation, 's', sequence, 'o', owner, 'n', '', 'c', made_id})",
        "local told = ''",
    ),
    _lua("feed", "content_rules", "  if t then told = tell(", "  if false then told = tell("),
    _lua("feed", "commit", "  told = tell(fields)\n", "  told = ''\n"),
    _lua(
        "nothing",
        "rules",
        "if token ~= tonumber(fence) then return",
        f"if token ~= tonumber(fence) then {_LOSE_A_ROW} return",
    ),
    _lua("nothing", "content_rules", "if rejects == '1' then return", f"if rejects == '1' then {_LOSE_A_ROW} return"),
]
