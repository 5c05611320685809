-- Gives a thread's lease to one holder at a time, each time it changes hands with a greater token than any before.

CREATE OR REPLACE FUNCTION @schema.lease_@code(
    in_thread text, in_any boolean, in_user @user, in_holder text, in_now bigint, in_until bigint, in_free boolean,
    OUT denied boolean, OUT holder text, OUT token bigint, OUT since bigint, OUT expires_at bigint
) LANGUAGE plpgsql SET enable_seqscan = off AS $clew$
BEGIN
    SELECT x.user_id IS NOT NULL AND NOT in_any AND x.user_id IS DISTINCT FROM in_user INTO denied
    FROM @schema.threads AS x WHERE x.thread_id = in_thread;
    denied := coalesce(denied, false);
    IF denied THEN
        RETURN;
    END IF;
    LOOP
        SELECT x.holder, x.token, x.since, x.expires_at INTO holder, token, since, expires_at
        FROM @schema.leases AS x WHERE x.thread_id = in_thread FOR UPDATE;
        IF FOUND AND expires_at > in_now THEN
            IF holder = in_holder THEN
                expires_at := in_until;
                UPDATE @schema.leases AS x SET expires_at = in_until WHERE x.thread_id = in_thread;
            END IF;
            RETURN;
        ELSIF in_free THEN
            RETURN;
        ELSIF FOUND THEN
            holder := in_holder;
            token := nextval('@text_schema.lease_tokens');
            since := in_now;
            expires_at := in_until;
            UPDATE @schema.leases AS x SET holder = in_holder, token = lease_@code.token, since = in_now, expires_at = in_until
            WHERE x.thread_id = in_thread;
            RETURN;
        END IF;
        -- Of two that come at once for the first time, one finds the other's here and looks again.
        INSERT INTO @schema.leases AS x VALUES (in_thread, in_holder, nextval('@text_schema.lease_tokens'), in_now, in_until)
        ON CONFLICT DO NOTHING RETURNING x.holder, x.token, x.since, x.expires_at INTO holder, token, since, expires_at;
        IF FOUND THEN
            RETURN;
        END IF;
    END LOOP;
END $clew$;
