-- Queues in push mode, and retry curves.

-- +goose Up

-- Where a queue in push mode sends its jobs; a null setting is the default. The secret that signs the calls
-- lies here encrypted: the key to it is in the environment of the cores alone.
ALTER TABLE queues
  ADD COLUMN retry_curve            text    CHECK (retry_curve IN ('exponential', 'linear', 'constant')),
  ADD COLUMN push_url               text,
  ADD COLUMN push_timeout_ms        bigint  CHECK (push_timeout_ms >= 1),
  ADD COLUMN push_secret            bytea,
  ADD COLUMN breaker_calls          integer CHECK (breaker_calls >= 1),
  ADD COLUMN breaker_failure_ratio  float8  CHECK (breaker_failure_ratio > 0 AND breaker_failure_ratio <= 1),
  ADD COLUMN breaker_open_ms        bigint  CHECK (breaker_open_ms >= 1),
  ADD COLUMN breaker_half_open      integer CHECK (breaker_half_open >= 1);

-- deferred_since is when the job was first sent back unspent because its destination could not take it: that
-- may go on for a day, then the attempts are spent.
ALTER TABLE jobs
  ADD COLUMN retry_curve    text NOT NULL DEFAULT 'exponential',
  ADD COLUMN deferred_since timestamptz;
-- not validated: that would read the whole table, and whatever lies there has the default
ALTER TABLE jobs ADD CONSTRAINT jobs_retry_curve CHECK (retry_curve IN ('exponential', 'linear', 'constant')) NOT VALID;

ALTER TABLE finished_jobs ADD COLUMN retry_curve text NOT NULL DEFAULT 'exponential';
ALTER TABLE dead_letters  ADD COLUMN retry_curve text NOT NULL DEFAULT 'exponential';
