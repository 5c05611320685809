-- Version 4: receipts are all alike: a thread keeps the last ones, and none for ever.

ALTER TABLE receipts DROP COLUMN lasting;
-- Their order: the commit's number, then the place among those that came with it. A commit's own is the last of these.
ALTER TABLE receipts RENAME COLUMN sequence TO place;
UPDATE receipts SET place = place << 10 | 1023;
