-- Acquires, renews or releases a lease: one holder at a time, with a greater token for each.

-- Returns the lease afterwards, which another holder may have. `in_release` never acquires: a lease
-- of `in_holder` gets the expiry `in_until`, which is `in_now`. `token` is NULL if there was no
-- lease to release.
CREATE OR REPLACE FUNCTION @schema.lease_@code(
    in_thread text, in_any boolean, in_user @user, in_holder text, in_now bigint, in_until bigint, in_release boolean,
    OUT denied boolean, OUT holder text, OUT token bigint, OUT since bigint, OUT expires_at bigint
) LANGUAGE plpgsql SET enable_seqscan = off AS $clew$
DECLARE
    t @schema.threads;
    lease_space text;
BEGIN
    SELECT * INTO t FROM @schema.threads AS x WHERE x.thread_id = in_thread;
    IF NOT FOUND THEN
        -- A thread that does not exist yet would belong to the user who creates it (nobody, for any
        -- user).
        t.user_id := in_user;
    END IF;
    denied := @rule_owner IS NOT TRUE;
    IF denied THEN
        RETURN;
    END IF;
    lease_space := @rule_space;
    LOOP
        SELECT x.holder, x.token, x.since, x.expires_at INTO holder, token, since, expires_at
        FROM @schema.leases AS x WHERE x.thread_id = in_thread AND x.space = lease_space FOR UPDATE;
        IF FOUND AND expires_at > in_now THEN
            IF holder = in_holder THEN
                expires_at := in_until;
                UPDATE @schema.leases AS x SET expires_at = in_until
                WHERE x.thread_id = in_thread AND x.space = lease_space;
            END IF;
            RETURN;
        ELSIF in_release THEN
            RETURN;
        ELSIF FOUND THEN
            holder := in_holder;
            token := nextval('@text_schema.lease_tokens');
            since := in_now;
            expires_at := in_until;
            UPDATE @schema.leases AS x SET holder = in_holder, token = lease_@code.token, since = in_now, expires_at = in_until
            WHERE x.thread_id = in_thread AND x.space = lease_space;
            RETURN;
        END IF;
        -- If another caller inserts the first lease concurrently, read it and decide again.
        INSERT INTO @schema.leases AS x
        VALUES (in_thread, lease_space, in_holder, nextval('@text_schema.lease_tokens'), in_now, in_until)
        ON CONFLICT DO NOTHING RETURNING x.holder, x.token, x.since, x.expires_at INTO holder, token, since, expires_at;
        IF FOUND THEN
            RETURN;
        END IF;
    END LOOP;
END $clew$;
