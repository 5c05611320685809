-- Searches across threads: all but the scans find their rows by number. `search.py` fills in {columns}, {found} and {page}.

-- name: search_scan_of_user
SELECT {columns} FROM threads INDEXED BY threads_by_user CROSS JOIN messages
    ON message_no BETWEEN threads.thread_no << 32 AND threads.thread_no << 32 | 0xFFFFFFFF
WHERE user_id IS :user AND {found} {page}

-- name: search_scan_of_all
SELECT {columns} FROM messages CROSS JOIN threads ON threads.thread_no = messages.thread_no WHERE {found} {page}

-- name: search_among
SELECT {columns} FROM json_each(:numbers) CROSS JOIN messages ON message_no = value
    CROSS JOIN threads ON threads.thread_no = messages.thread_no
WHERE (:any OR user_id IS :user) AND {found} {page}

-- name: search_among_waiting
SELECT {columns} FROM (SELECT DISTINCT message_no AS number FROM search_waiting) CROSS JOIN messages ON message_no = number
    CROSS JOIN threads ON threads.thread_no = messages.thread_no
WHERE (:any OR user_id IS :user) AND {found} {page}

-- name: search_own_of_user
SELECT coalesce(sum(message_count), 0), count(*)
FROM (SELECT message_count FROM threads INDEXED BY threads_by_user WHERE user_id IS :user LIMIT :most)

-- name: search_own_of_all
SELECT coalesce(sum(message_count), 0), count(*) FROM (SELECT message_count FROM threads LIMIT :most)

-- name: search_waiting
SELECT count(*) FROM (SELECT 1 FROM search_waiting LIMIT ?)

-- name: search_segments
SELECT segment_no, chunks, oldest, newest, checksum FROM search_segments

-- name: search_table
SELECT place, cells FROM search_cells WHERE place BETWEEN ? AND ?

-- name: search_cells
SELECT place, cells FROM json_each(?) CROSS JOIN search_cells ON place = value

-- name: search_chunks
SELECT members FROM json_each(?) CROSS JOIN search_chunks ON chunk_no = value
