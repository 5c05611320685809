-- Tables of the index for searches across threads: created once, with all messages waiting.

-- Segments and their cells are described in storage/search_filter.py. `thread_ids` and `positions` are
-- the messages of a chunk. `search_waiting` has the messages that are new or changed since the last
-- step of the index, in that order; a message may be there more than once. Every commit that adds or
-- replaces messages writes them there, in its own transaction, so a search sees each message in a
-- segment or waiting.
DO $clew$
BEGIN
    IF to_regclass('@text_schema.search_waiting') IS NOT NULL THEN
        RETURN;
    END IF;
    CREATE TABLE @schema.search_segments (
        segment_no bigint PRIMARY KEY,
        chunks integer NOT NULL,
        oldest bigint NOT NULL,
        newest bigint NOT NULL
    );
    CREATE TABLE @schema.search_cells (
        segment_no bigint NOT NULL,
        part integer NOT NULL,
        cells bytea NOT NULL,
        PRIMARY KEY (segment_no, part)
    );
    CREATE TABLE @schema.search_chunks (
        chunk_no bigint PRIMARY KEY,
        thread_ids text[] COLLATE "C" NOT NULL,
        positions bigint[] NOT NULL
    );
    CREATE TABLE @schema.search_waiting (
        serial bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        thread_id text COLLATE "C" NOT NULL,
        position bigint NOT NULL
    ) WITH (autovacuum_vacuum_scale_factor = 0.05);
    INSERT INTO @schema.search_waiting (thread_id, position)
    SELECT m.thread_id, m.position FROM @schema.messages AS m ORDER BY m.created_at;
END $clew$;
