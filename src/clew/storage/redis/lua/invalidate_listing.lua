-- Changes the listing of a thread without journal entries, so that its next writer lists it again.
-- Returns 1, or 0 if it has entries.
if count_entries() > 0 then return 0 end
local mark, last, listing, oldest = read_mark()
if mark then write_mark(mark, last, later_than(math.max(last, listing)), oldest) end
return 1
