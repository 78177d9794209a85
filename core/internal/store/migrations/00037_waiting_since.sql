-- A job that is claimed and given back without a spent attempt gets a new ready_at, its place in the line. How long it waits
-- counts from when it first could run.

-- +goose Up

ALTER TABLE jobs ADD COLUMN waiting_since timestamptz;
CREATE INDEX jobs_given_back ON jobs (lane_id, waiting_since) WHERE state = 'queued' AND waiting_since IS NOT NULL;
