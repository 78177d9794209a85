-- A job that was made by running another one again names it.

-- +goose Up

-- Null for every other job. It may name a job that is no longer kept. A core of the version before leaves it out
-- when it moves a job: the link is then lost, and the job is not.
ALTER TABLE jobs          ADD COLUMN rerun_of uuid;
ALTER TABLE finished_jobs ADD COLUMN rerun_of uuid;
ALTER TABLE dead_letters  ADD COLUMN rerun_of uuid;
