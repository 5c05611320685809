-- Version 4: every receipt is pruned in time, and functions have the digest of their code in their names.

-- Processes of older versions go on with the functions that they know, which say what is lasting.
ALTER TABLE @schema.receipts ALTER COLUMN lasting SET DEFAULT false;
