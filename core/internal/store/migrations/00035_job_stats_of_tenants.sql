-- What all tenants did in a time is read without the rows of their queues.

-- +goose NO TRANSACTION
-- +goose Up

-- what a run that was interrupted has left
DROP INDEX CONCURRENTLY IF EXISTS job_stats_of_tenants;
CREATE INDEX CONCURRENTLY job_stats_of_tenants ON job_stats (at) WHERE queue = '';
