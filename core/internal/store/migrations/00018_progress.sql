-- What a worker reports of a running job with its heartbeats.

-- +goose Up

-- progress: {"percent", "message", "epoch"} of the attempt with that epoch. checkpoint: a value of the worker's, which
-- the next attempt gets; json, not jsonb: it comes back as it was sent. Both move with the job. A core of the version
-- before leaves them out when it moves a job, and hands no checkpoint out.
ALTER TABLE jobs          ADD COLUMN progress json, ADD COLUMN checkpoint json;
ALTER TABLE finished_jobs ADD COLUMN progress json, ADD COLUMN checkpoint json;
ALTER TABLE dead_letters  ADD COLUMN progress json, ADD COLUMN checkpoint json;
