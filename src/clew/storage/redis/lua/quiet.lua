-- Changes the listing of a thread without entries, so that whoever commits next lists it again; says whether there were none.
if count_entries() > 0 then return 0 end
local mark, last, listing, oldest = read_mark()
if mark then write_mark(mark, last, later_than(math.max(last, listing)), oldest) end
return 1
