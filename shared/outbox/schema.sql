-- ForgeQueue's outbox, version 1: jobs that commit with your own rows.
--
-- Run this file in the schema that the tables shall be in (the first of search_path). It can be run again,
-- and brings each older version to this one: `forgequeue relay migrate` does that, or put it into a migration
-- of your own. PostgreSQL 13 or newer.
--
-- A program that submits needs: GRANT INSERT, SELECT (id) ON forgequeue_outbox TO program;
-- a relay needs:                GRANT SELECT, UPDATE, DELETE ON forgequeue_outbox TO relay;
--                               GRANT SELECT, INSERT, UPDATE, DELETE ON forgequeue_outbox_batches TO relay;

-- A row is one job. Insert with forgequeue_enqueue or forgequeue_enqueue_job, which check it: a row that was inserted
-- otherwise may be refused only when it is sent.
CREATE TABLE IF NOT EXISTS forgequeue_outbox (
  -- in the order of the inserts
  id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  -- the body of POST /v1/jobs
  job          jsonb NOT NULL,
  -- rows with the same key are sent one after the other; NULL for no order
  ordering_key text,
  -- waiting: to be sent; sending: in a batch that a relay sends; failed: refused for good, see error; sent: kept for a
  -- while, where the relay is told to
  state        text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'sending', 'failed', 'sent')),
  -- the batch of a row that is sending
  batch        uuid CHECK ((batch IS NOT NULL) = (state = 'sending')),
  -- of job as text
  bytes        integer NOT NULL,
  -- how often the server has refused the row for the time being
  refusals     integer NOT NULL DEFAULT 0,
  -- the last refusal: {"code", "status", "detail", "request_id"}
  error        jsonb,
  created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- not to be sent before
  not_before   timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- when it failed or was sent
  ended_at     timestamptz,
  -- the job's id, of a row that was sent
  job_id       uuid
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- What a relay looks for: rows without a key by time, the first row of each key, the rows of a batch.
CREATE INDEX IF NOT EXISTS forgequeue_outbox_waiting ON forgequeue_outbox (not_before, id) WHERE state = 'waiting' AND ordering_key IS NULL;
CREATE INDEX IF NOT EXISTS forgequeue_outbox_ordered ON forgequeue_outbox (ordering_key, id) WHERE ordering_key IS NOT NULL AND state <> 'sent';
CREATE INDEX IF NOT EXISTS forgequeue_outbox_batch ON forgequeue_outbox (batch) WHERE batch IS NOT NULL;
-- However many relays there are, one row of a key is sent at a time.
CREATE UNIQUE INDEX IF NOT EXISTS forgequeue_outbox_one_by_one ON forgequeue_outbox (ordering_key) WHERE batch IS NOT NULL AND ordering_key IS NOT NULL;
-- What people and metrics ask for.
CREATE INDEX IF NOT EXISTS forgequeue_outbox_states ON forgequeue_outbox (state, created_at) WHERE state <> 'sent';
CREATE INDEX IF NOT EXISTS forgequeue_outbox_sent ON forgequeue_outbox (ended_at) WHERE state = 'sent';

-- The batches in flight. Their rows stay the same until the server has answered: the id is the Idempotency-Key.
CREATE TABLE IF NOT EXISTS forgequeue_outbox_batches (
  id            uuid PRIMARY KEY,
  -- when the next relay may send it: the end of a relay's lease, or of a backoff
  next_at       timestamptz NOT NULL,
  tries         integer NOT NULL DEFAULT 1,
  -- since when the server may have stored it without our knowledge; NULL for surely not
  unknown_since timestamptz,
  -- why the last try stored nothing, or is unknown
  error         text
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 100);
CREATE INDEX IF NOT EXISTS forgequeue_outbox_batches_next ON forgequeue_outbox_batches (next_at);

-- forgequeue_enqueue stores a job of this transaction, and returns the id of its row. Arguments are named, but for the
-- first two: SELECT forgequeue_enqueue('email.send', '{"to": "ada@example.com"}', queue => 'mail', priority => 9)
CREATE OR REPLACE FUNCTION forgequeue_enqueue(
  type         text,
  payload      jsonb       DEFAULT NULL, -- any JSON, 256 KiB as text, at most 29 levels
  queue        text        DEFAULT NULL, -- 'default'
  priority     integer     DEFAULT NULL, -- 0 to 9, higher first; 5
  run_at       timestamptz DEFAULT NULL, -- not before; at most ten years ahead
  deadline     timestamptz DEFAULT NULL, -- of no use after; at most ten years ahead
  max_attempts integer     DEFAULT NULL, -- 1 to 1000; the queue's
  timeout      interval    DEFAULT NULL, -- of one execution, at most 7 days
  retry        jsonb       DEFAULT NULL, -- {"base_ms", "cap_ms", "jitter", "curve"}; the queue's
  tags         text[]      DEFAULT NULL, -- that a worker must have, at most 16
  for_user     text        DEFAULT NULL, -- the end user on whose behalf the job runs
  metadata     jsonb       DEFAULT NULL, -- an object of strings, at most 32
  dedupe_key   text        DEFAULT NULL, -- unique among live jobs
  after        jsonb       DEFAULT NULL, -- ids of jobs that must have ended before, as in POST /v1/jobs
  ordering_key text        DEFAULT NULL, -- rows with the same key are sent one after the other
  key          text        DEFAULT NULL, -- whose turn the job takes in its queue; the user
  key_weight   numeric     DEFAULT NULL, -- the key's share in the turns, 0.1 to 100; 1
  costs        jsonb       DEFAULT NULL, -- what an attempt may use of budgets: {"BUDGET": amount}, at most 8
  dedupe       jsonb       DEFAULT NULL  -- in the place of dedupe_key: {"key", "on_live", "max_delay_ms"}
) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT -- finds the table, whoever calls
AS $$
#variable_conflict use_variable
DECLARE
  utc CONSTANT text := 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"';
BEGIN
  RETURN forgequeue_enqueue_job((
    SELECT coalesce(jsonb_object_agg(m.key, m.value), '{}') FROM jsonb_each(jsonb_build_object(
      'type', type, 'queue', queue, 'payload', payload, 'priority', priority,
      -- infinity is no time for the check to find
      'run_at', CASE WHEN isfinite(run_at) THEN to_char(run_at AT TIME ZONE 'UTC', utc) ELSE run_at::text END,
      'deadline', CASE WHEN isfinite(deadline) THEN to_char(deadline AT TIME ZONE 'UTC', utc) ELSE deadline::text END,
      'max_attempts', max_attempts, 'timeout_ms', ceil(extract(epoch FROM timeout) * 1000)::bigint, 'tags', to_jsonb(tags),
      'user', for_user, 'metadata', metadata, 'dedupe_key', dedupe_key, 'dedupe', dedupe, 'key', key, 'key_weight', key_weight, 'costs', costs, 'after', after, 'retry', retry)) AS m
    WHERE m.value <> 'null'
  ), ordering_key);
END $$;

-- forgequeue_enqueue_job is the same for a job as POST /v1/jobs takes it.
CREATE OR REPLACE FUNCTION forgequeue_enqueue_job(job jsonb, ordering_key text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT -- finds the table, whoever calls
AS $$
#variable_conflict use_variable
DECLARE
  fault text;
  stored bigint;
BEGIN
  fault := forgequeue_outbox_fault(job);
  IF fault IS NULL AND (octet_length(ordering_key) NOT BETWEEN 1 AND 255) THEN
    fault := 'ordering_key: must be 1 to 255 bytes';
  END IF;
  IF fault IS NOT NULL THEN
    RAISE EXCEPTION 'forgequeue_outbox: %', fault USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF job ->> 'delay_ms' IS NOT NULL THEN -- from now on, not from when it is sent
    job := job - 'delay_ms' || jsonb_build_object('run_at',
      to_char((clock_timestamp() + (job ->> 'delay_ms')::bigint * interval '1 millisecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'));
  END IF;
  IF job ->> 'expires_after_ms' IS NOT NULL THEN
    job := job - 'expires_after_ms' || jsonb_build_object('deadline',
      to_char((clock_timestamp() + (job ->> 'expires_after_ms')::bigint * interval '1 millisecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'));
  END IF;
  INSERT INTO forgequeue_outbox (job, ordering_key, bytes) VALUES (job, ordering_key, octet_length(job::text)) RETURNING id INTO stored;
  RETURN stored;
END $$;

-- forgequeue_outbox_fault says why the server would refuse a job; NULL if it has no reason to.
CREATE OR REPLACE FUNCTION forgequeue_outbox_fault(job jsonb) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
  name CONSTANT text := '^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$';
  name_rule CONSTANT text := 'must be 1 to 128 of A-Z a-z 0-9 . _ : - and start with a letter or digit';
  ten_years CONSTANT interval := '3653 days';
  day_ms CONSTANT bigint := 86400000;
  entry record;
  number bigint;
  at timestamptz;
BEGIN
  IF job IS NULL OR jsonb_typeof(job) <> 'object' THEN
    RETURN 'job: must be an object';
  END IF;
  FOR entry IN SELECT key, value, jsonb_typeof(value) AS kind, value #>> '{}' AS txt FROM jsonb_each(job - 'payload') WHERE value <> 'null' LOOP
    CASE
      WHEN entry.key IN ('type', 'queue') THEN
        IF entry.kind <> 'string' OR entry.txt COLLATE "C" !~ name THEN
          RETURN entry.key || ': ' || name_rule;
        END IF;
      WHEN entry.key IN ('user', 'dedupe_key', 'key') THEN
        IF entry.kind <> 'string' OR entry.txt COLLATE "C" !~ '^[ -~]{1,128}$' THEN
          RETURN entry.key || ': must be 1 to 128 printable ASCII characters';
        END IF;
      WHEN entry.key = 'dedupe' THEN
        IF entry.kind <> 'object' OR coalesce(jsonb_typeof(entry.value -> 'key'), '') <> 'string' OR EXISTS (SELECT FROM jsonb_each(entry.value) AS d WHERE CASE d.key
            WHEN 'key' THEN d.value #>> '{}' COLLATE "C" !~ '^[ -~]{1,128}$'
            WHEN 'on_live' THEN d.value NOT IN ('"keep"', '"replace"', '"extend"', '"fail"')
            WHEN 'max_delay_ms' THEN jsonb_typeof(d.value) <> 'number' OR d.value #>> '{}' !~ '^[0-9]{1,15}$'
              OR (d.value #>> '{}')::bigint > 366 * day_ms OR coalesce(entry.value ->> 'on_live', '') <> 'extend'
            ELSE true END) THEN
          RETURN 'dedupe: must have a key of 1 to 128 printable ASCII characters, and may have on_live keep, replace, extend or fail, and with extend max_delay_ms of up to 366 days';
        ELSIF job ->> 'dedupe_key' IS NOT NULL THEN
          RETURN 'dedupe_key: cannot be combined with dedupe; use one of them';
        END IF;
      WHEN entry.key = 'key_weight' THEN
        IF entry.kind <> 'number' OR entry.txt::numeric NOT BETWEEN 0.1 AND 100 THEN
          RETURN 'key_weight: must be between 0.1 and 100';
        END IF;
      WHEN entry.key = 'costs' THEN
        IF entry.kind <> 'object' OR (SELECT count(*) FROM jsonb_object_keys(entry.value)) > 8 THEN
          RETURN 'costs: must be an object of at most 8 entries';
        ELSIF EXISTS (SELECT FROM jsonb_each(entry.value) AS c WHERE c.key COLLATE "C" !~ name) THEN
          RETURN 'costs: each key ' || name_rule;
        ELSIF EXISTS (SELECT FROM jsonb_each(entry.value) AS c WHERE jsonb_typeof(c.value) <> 'number' OR c.value #>> '{}' !~ '^[0-9]{1,15}$') THEN
          RETURN 'costs: each value must be a whole number, at least 0';
        END IF;
      WHEN entry.key IN ('priority', 'max_attempts', 'timeout_ms', 'delay_ms', 'expires_after_ms') THEN
        IF entry.kind <> 'number' OR entry.txt !~ '^-?[0-9]{1,18}$' THEN
          RETURN entry.key || ': must be a whole number';
        END IF;
        number := entry.txt::bigint;
        IF entry.key = 'priority' AND number NOT BETWEEN 0 AND 9 THEN
          RETURN 'priority: must be between 0 and 9';
        ELSIF entry.key = 'max_attempts' AND number NOT BETWEEN 1 AND 1000 THEN
          RETURN 'max_attempts: must be between 1 and 1000';
        ELSIF entry.key = 'timeout_ms' AND number NOT BETWEEN 1 AND 7 * day_ms THEN
          RETURN 'timeout: must be between 1 ms and 7 days';
        ELSIF entry.key = 'delay_ms' AND number NOT BETWEEN 0 AND 366 * day_ms THEN
          RETURN 'delay: must be between 0 and 366 days';
        ELSIF entry.key = 'delay_ms' AND job ->> 'run_at' IS NOT NULL THEN
          RETURN 'run_at: cannot be combined with delay_ms; use one of them';
        ELSIF entry.key = 'expires_after_ms' AND number NOT BETWEEN 1000 AND 3653 * day_ms THEN
          RETURN 'expires_after_ms: must be between 1000 and ' || 3653 * day_ms;
        ELSIF entry.key = 'expires_after_ms' AND job ->> 'deadline' IS NOT NULL THEN
          RETURN 'deadline: cannot be combined with expires_after_ms; use one of them';
        END IF;
      WHEN entry.key IN ('run_at', 'deadline') THEN
        BEGIN
          at := NULL;
          IF entry.kind = 'string' AND entry.txt ~ '^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$' THEN
            at := entry.txt::timestamptz;
          END IF;
        EXCEPTION WHEN data_exception THEN -- 31 February
        END;
        IF at IS NULL THEN
          RETURN entry.key || ': must be a time such as 2026-11-20T12:00:00Z';
        ELSIF at < '1970-01-01Z' OR at > statement_timestamp() + ten_years THEN
          RETURN entry.key || ': must be after 1970 and at most ten years ahead';
        ELSIF entry.key = 'deadline' AND at <= statement_timestamp() THEN
          RETURN 'deadline: has passed';
        END IF;
      WHEN entry.key = 'tags' THEN
        IF entry.kind <> 'array' OR jsonb_array_length(entry.value) > 16 THEN
          RETURN 'tags: must be a list of at most 16 entries';
        ELSIF EXISTS (SELECT FROM jsonb_array_elements(entry.value) AS tag WHERE jsonb_typeof(tag) <> 'string' OR tag #>> '{}' COLLATE "C" !~ name) THEN
          RETURN 'tags: each ' || name_rule;
        END IF;
      WHEN entry.key = 'metadata' THEN
        IF entry.kind <> 'object' OR (SELECT count(*) FROM jsonb_object_keys(entry.value)) > 32 THEN
          RETURN 'metadata: must be an object of at most 32 entries';
        ELSIF EXISTS (SELECT FROM jsonb_each(entry.value) AS m WHERE m.key COLLATE "C" !~ name) THEN
          RETURN 'metadata: each key ' || name_rule;
        ELSIF EXISTS (SELECT FROM jsonb_each(entry.value) AS m WHERE jsonb_typeof(m.value) <> 'string' OR octet_length(m.value #>> '{}') > 1024) THEN
          RETURN 'metadata: each value must be a string of at most 1024 bytes';
        END IF;
      WHEN entry.key = 'retry' THEN
        IF entry.kind <> 'object' OR EXISTS (SELECT FROM jsonb_each(entry.value) AS r WHERE CASE
            WHEN r.key IN ('base_ms', 'cap_ms') THEN jsonb_typeof(r.value) <> 'number' OR r.value #>> '{}' !~ '^[0-9]{1,18}$'
              OR (r.value #>> '{}')::bigint NOT BETWEEN 1 AND 7 * day_ms
            WHEN r.key = 'jitter' THEN jsonb_typeof(r.value) <> 'number' OR (r.value #>> '{}')::numeric NOT BETWEEN 0 AND 1
            WHEN r.key = 'curve' THEN r.value NOT IN ('"exponential"', '"linear"', '"constant"')
            ELSE true END) THEN
          RETURN 'retry: must have base_ms and cap_ms of 1 ms to 7 days, jitter of 0 to 1, curve exponential, linear or constant, or some of them';
        END IF;
      WHEN entry.key = 'after' THEN
        IF entry.kind <> 'array' OR jsonb_array_length(entry.value) > 100 THEN
          RETURN 'after: must be a list of at most 100 entries';
        END IF;
      WHEN entry.key = 'max_wait_ms' THEN
        RETURN 'max_wait_ms: cannot be used in an outbox, because nobody hears of the refusal';
      ELSE
        RETURN entry.key || ': is not known';
    END CASE;
  END LOOP;
  IF coalesce(job -> 'type', 'null') = 'null' THEN
    RETURN 'type: is required';
  ELSIF job ? 'payload' THEN
    IF octet_length((job -> 'payload')::text) > 262144 THEN
      RETURN 'payload: must be at most 262144 bytes as text; it has ' || octet_length((job -> 'payload')::text);
    ELSIF jsonb_path_exists(job -> 'payload', 'strict $.**{29} ? (@.type() == "object" || @.type() == "array")') THEN
      RETURN 'payload: must be nested at most 29 levels deep';
    END IF;
  END IF;
  RETURN NULL;
END $$;

-- Relays are woken when a transaction with a row commits. NOTIFY makes commits that use it wait for each other: a database
-- with thousands of such commits a second does better without, ALTER TABLE forgequeue_outbox DISABLE TRIGGER
-- forgequeue_outbox_notify, and relays poll.
CREATE OR REPLACE FUNCTION forgequeue_outbox_notify() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('forgequeue_outbox', ''); -- once for a transaction
  RETURN NULL;
END $$;

DO $$
BEGIN
  -- One that was disabled stays so.
  IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'forgequeue_outbox'::regclass AND tgname = 'forgequeue_outbox_notify') THEN
    CREATE TRIGGER forgequeue_outbox_notify AFTER INSERT ON forgequeue_outbox
      FOR EACH STATEMENT EXECUTE FUNCTION forgequeue_outbox_notify();
  END IF;
END $$;

-- What relays ask for when they start; last, so that it is true.
CREATE OR REPLACE FUNCTION forgequeue_outbox_version() RETURNS integer
LANGUAGE sql IMMUTABLE AS 'SELECT 1';
