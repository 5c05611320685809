-- The tables of version 1 from before the first release, empty: a layout that setup refuses.
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA "golden schema";
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE "golden schema".value_rows (
    thread_id text NOT NULL COLLATE pg_catalog."C",
    first bigint NOT NULL,
    count integer NOT NULL,
    digests bytea NOT NULL,
    data bytea NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.05', toast.autovacuum_vacuum_scale_factor='0.05');
ALTER TABLE ONLY "golden schema".value_rows ALTER COLUMN digests SET STORAGE EXTERNAL;
ALTER TABLE ONLY "golden schema".value_rows ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE "golden schema".attachments (
    thread_id text NOT NULL COLLATE pg_catalog."C",
    namespace text NOT NULL COLLATE pg_catalog."C",
    checkpoint_id text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    data bytea NOT NULL
);
CREATE TABLE "golden schema".checkpoints (
    thread_id text NOT NULL COLLATE pg_catalog."C",
    sequence bigint NOT NULL,
    created_at bigint NOT NULL,
    step bigint,
    size bigint NOT NULL,
    receipt boolean NOT NULL,
    namespace text NOT NULL COLLATE pg_catalog."C",
    checkpoint_id text NOT NULL COLLATE pg_catalog."C",
    parent_id text COLLATE pg_catalog."C",
    node_name text COLLATE pg_catalog."C",
    run_id text COLLATE pg_catalog."C",
    covers bigint[] NOT NULL,
    metadata bytea NOT NULL,
    body bytea NOT NULL
);
ALTER TABLE ONLY "golden schema".checkpoints ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE "golden schema".clew_schema (
    version integer NOT NULL
);
CREATE SEQUENCE "golden schema".lease_tokens
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE "golden schema".leases (
    thread_id text NOT NULL COLLATE pg_catalog."C",
    holder text NOT NULL COLLATE pg_catalog."C",
    token bigint NOT NULL,
    since bigint NOT NULL,
    expires_at bigint NOT NULL
)
WITH (fillfactor='70');
CREATE TABLE "golden schema".messages (
    thread_id text NOT NULL COLLATE pg_catalog."C",
    "position" bigint NOT NULL,
    sequence bigint NOT NULL,
    created_at bigint NOT NULL,
    size bigint NOT NULL,
    tool_calls integer NOT NULL,
    message_id text NOT NULL COLLATE pg_catalog."C",
    run_id text COLLATE pg_catalog."C",
    text text NOT NULL COLLATE pg_catalog."C",
    data bytea NOT NULL
);
CREATE TABLE "golden schema".receipts (
    thread_id text NOT NULL COLLATE pg_catalog."C",
    commit_id text NOT NULL COLLATE pg_catalog."C",
    sequence bigint NOT NULL,
    lasting boolean NOT NULL
);
CREATE SEQUENCE "golden schema".thread_ordinals
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE "golden schema".threads (
    thread_id text NOT NULL COLLATE pg_catalog."C",
    user_id text COLLATE pg_catalog."C",
    incarnation text NOT NULL COLLATE pg_catalog."C",
    ordinal bigint NOT NULL,
    epoch bigint NOT NULL,
    next_value bigint NOT NULL,
    sequence bigint NOT NULL,
    next_message bigint NOT NULL,
    message_count bigint NOT NULL,
    checkpoint_count bigint NOT NULL,
    size bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    active integer NOT NULL,
    head text COLLATE pg_catalog."C",
    head_before text COLLATE pg_catalog."C",
    run_id text COLLATE pg_catalog."C",
    forked_thread text COLLATE pg_catalog."C",
    forked_checkpoint text COLLATE pg_catalog."C",
    folded_id text COLLATE pg_catalog."C",
    text text NOT NULL COLLATE pg_catalog."C",
    data bytea NOT NULL
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.05');
INSERT INTO "golden schema".clew_schema VALUES
	(1);
SELECT pg_catalog.setval('"golden schema".lease_tokens', 1, false);
SELECT pg_catalog.setval('"golden schema".thread_ordinals', 2, true);
ALTER TABLE ONLY "golden schema".attachments
    ADD CONSTRAINT attachments_pkey PRIMARY KEY (thread_id, namespace, checkpoint_id, key);
ALTER TABLE ONLY "golden schema".checkpoints
    ADD CONSTRAINT checkpoints_pkey PRIMARY KEY (thread_id, namespace, sequence);
ALTER TABLE ONLY "golden schema".leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (thread_id);
ALTER TABLE ONLY "golden schema".messages
    ADD CONSTRAINT messages_pkey PRIMARY KEY (thread_id, "position");
ALTER TABLE ONLY "golden schema".receipts
    ADD CONSTRAINT receipts_pkey PRIMARY KEY (thread_id, commit_id);
ALTER TABLE ONLY "golden schema".threads
    ADD CONSTRAINT threads_pkey PRIMARY KEY (thread_id);
ALTER TABLE ONLY "golden schema".value_rows
    ADD CONSTRAINT value_rows_pkey PRIMARY KEY (thread_id, first);
CREATE UNIQUE INDEX checkpoints_by_id ON "golden schema".checkpoints USING btree (thread_id, checkpoint_id, namespace);
CREATE UNIQUE INDEX messages_by_id ON "golden schema".messages USING btree (thread_id, message_id);
CREATE INDEX threads_by_time ON "golden schema".threads USING btree (((active)::bigint));
CREATE INDEX threads_by_user ON "golden schema".threads USING btree (user_id, active);
