-- A redrive by filter can queue a sample first, its canary, and go on only when enough of it completed.

-- +goose Up

-- What was asked for, how far it is, and how it ended; null for a redrive without.
ALTER TABLE redrives ADD COLUMN canary json;
-- 'canary' until the sample has passed: cores of before look for 'running' only, and would redrive all. 'stopped' is
-- the end of one whose sample did not pass.
ALTER TABLE redrives
  DROP CONSTRAINT redrives_state_check,
  DROP CONSTRAINT redrives_check,
  ADD CONSTRAINT redrives_state_check CHECK (state IN ('canary', 'running', 'done', 'stopped', 'cancelled', 'failed')),
  ADD CONSTRAINT redrives_check CHECK ((state IN ('canary', 'running')) = (ended_at IS NULL));
-- They serve queries for one of the two states as well.
CREATE INDEX redrives_next       ON redrives (next_at)   WHERE state IN ('canary', 'running');
CREATE INDEX redrives_unfinished ON redrives (tenant_id) WHERE state IN ('canary', 'running');
DROP INDEX redrives_due;
DROP INDEX redrives_running;

-- A row for each job of a sample, deleted when the sample has passed or the redrive has ended: up to 1,000 for each of
-- a tenant's unfinished redrives.
CREATE TABLE redrive_samples (
  redrive_id uuid     NOT NULL REFERENCES redrives (id) ON DELETE CASCADE,
  job_id     uuid     NOT NULL,
  -- chosen: still dead; skipped: it could not be queued, and is no part of the sample
  state      text     NOT NULL CHECK (state IN ('chosen', 'skipped', 'queued', 'completed', 'failed')),
  -- how often the job had been redriven when it was chosen
  redrives   integer  NOT NULL,
  -- of one that failed: what equal failures share, and the text of this one
  cause      text,
  error      text,
  PRIMARY KEY (redrive_id, job_id)
);
