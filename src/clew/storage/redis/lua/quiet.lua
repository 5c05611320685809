-- Changes the listing of a thread without entries, so that whoever commits next lists it again; says whether there were none.
if newest_entry() then return 0 end
local mark, last, listing = read_mark()
if mark then write_mark(mark, last, later_than(math.max(last, listing))) end
return 1
