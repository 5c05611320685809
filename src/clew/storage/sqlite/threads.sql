-- Version 3: whatever changes what a search over threads looks at, by whatever version of Clew, leaves the thread's number here.

-- Threads whose entry in the index (`thread_index.py`) is not made yet, is of a text that has changed, or is of a thread
-- that is gone.
CREATE TABLE threads_to_index (
    thread_no INTEGER PRIMARY KEY
) STRICT;
CREATE TRIGGER thread_added AFTER INSERT ON threads BEGIN
    INSERT OR IGNORE INTO threads_to_index VALUES (new.thread_no);
END;
CREATE TRIGGER thread_described AFTER UPDATE OF text ON threads WHEN new.text <> old.text BEGIN
    INSERT OR IGNORE INTO threads_to_index VALUES (new.thread_no);
END;
CREATE TRIGGER thread_dropped AFTER DELETE ON threads BEGIN
    INSERT OR IGNORE INTO threads_to_index VALUES (old.thread_no);
END;

-- What the index has of each thread: to take an entry out, it has to be told what is in it.
CREATE TABLE indexed_threads (
    thread_no INTEGER PRIMARY KEY,
    text BLOB NOT NULL
) STRICT;

INSERT INTO threads_to_index SELECT thread_no FROM threads;
