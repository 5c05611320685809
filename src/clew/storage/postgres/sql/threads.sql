-- Version 3: an index names at least every thread that has a given text in its own or in its id; those who ask verify each.

-- It needs no extension: the words are the four characters from each one on, fewer at the end of a text, so that a needle of any
-- length is words, or the beginning of one. The owner is a word, too: who looks for what others have many of reads only their
-- own. Those that a tsvector might have no room for have one word that every needle looks for. What these functions give is in
-- the index, so they never change.
CREATE FUNCTION @schema.thread_words(of_id text, of_text text, of_user text) RETURNS tsvector
LANGUAGE sql IMMUTABLE PARALLEL SAFE COST 10000 AS $clew$
    SELECT CASE WHEN length(of_id) + length(of_text) > 10000 THEN array_to_tsvector(ARRAY['very long'])
    ELSE array_to_tsvector(
        ARRAY(SELECT substr(of_id, n, 4) FROM generate_series(1, length(of_id)) AS n)
        || ARRAY(SELECT substr(of_text, n, 4) FROM generate_series(1, length(of_text)) AS n)
        || ('owner ' || left(coalesce(of_user, ''), 100)))
    END
$clew$;

-- Of a long needle some of its words are enough, the last one among them: names and ids that have something in common mostly
-- begin alike.
CREATE FUNCTION @schema.thread_sought(needle text, of_all boolean, of_user text) RETURNS tsquery
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $clew$
    SELECT (format('''very long'' | (%s%s)',
        string_agg('''' || replace(replace(substr(needle, n, 4), E'\\', E'\\\\'), '''', '''''') || '''', ' & ')
            || CASE WHEN length(needle) < 4 THEN ':*' ELSE '' END,
        CASE WHEN of_all THEN '' ELSE
            ' & ''owner ' || replace(replace(left(coalesce(of_user, ''), 100), E'\\', E'\\\\'), '''', '''''') || ''''
        END))::tsquery
    FROM generate_series(greatest(length(needle) - 3, 1), 1, -greatest((length(needle) + 2) / 6, 1)) AS n
$clew$;

-- A short list of what is to be entered, because each search reads it. Statistics of the words would be of no use, and take long.
CREATE INDEX threads_by_words ON @schema.threads
USING gin (@schema.thread_words(coalesce(folded_id, thread_id), text, user_id::text)) WITH (gin_pending_list_limit = 256);
ALTER INDEX @schema.threads_by_words ALTER COLUMN 1 SET STATISTICS 0;
