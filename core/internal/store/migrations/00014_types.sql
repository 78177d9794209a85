-- Claims by type: the type of its jobs is part of a lane, so that a claim for some types reads no job of another one.

-- +goose Up

-- Takes the place of lanes. It is a table of its own because a core of the version before looks a lane up by its
-- other columns and would store jobs of any type in one that it finds here. For such a core these lanes do not
-- exist, and the other way round: each moves the waiting jobs of a lane that it does not know into its own lanes,
-- once a minute. So both can run at the same time, and the version before can take over again.
CREATE TABLE typed_lanes (
  id          integer     GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id   uuid        NOT NULL,
  queue       text        NOT NULL,
  type        text        NOT NULL,
  tags        text[]      NOT NULL,
  capped_user text        NOT NULL DEFAULT '',
  -- made_for, used_at, retired_at: see 00007
  made_for    text        NOT NULL DEFAULT '',
  created_at  timestamptz NOT NULL,
  used_at     timestamptz NOT NULL DEFAULT now(),
  retired_at  timestamptz,
  UNIQUE (tenant_id, queue, type, tags, capped_user)
);
CREATE INDEX typed_lanes_by_use  ON typed_lanes (used_at)    WHERE retired_at IS NULL;
CREATE INDEX typed_lanes_retired ON typed_lanes (retired_at) WHERE retired_at IS NOT NULL;

-- No id is used in both tables: cores of the version before make fewer lanes than this while they still run.
SELECT setval(pg_get_serial_sequence('typed_lanes', 'id'), (SELECT last_value + 1000000 FROM lanes_id_seq));

-- The types that a worker claims; null for all.
ALTER TABLE workers ADD COLUMN types text[];

-- Limits by type: {"TYPE": {"max_running", "rate_per_second"}}. In usage_counts and its log the counter 128 counts the running jobs of a
-- type, and its name is QUEUE/TYPE; so is the queue in rate_log of a rate by type.
ALTER TABLE queues ADD COLUMN types json;
