-- A queue in push mode may send its jobs to a broker.

-- +goose Up

-- push_settle is what ends such a job: its broker's confirm, the default, or its consumer. push_credentials are the
-- user and password for the broker, sealed like push_secret: push_url has none.
ALTER TABLE queues
  ADD COLUMN push_settle      text CHECK (push_settle IN ('confirm', 'worker')),
  ADD COLUMN push_credentials bytea;
