-- How many entries a thread's journal has, and the oldest of them: one view of the thread.
return {count_entries(), redis.call('ZRANGEBYSCORE', KEYS[1], JOURNAL + 1, JOURNAL_END, 'LIMIT', 0, ARGV[1])}
