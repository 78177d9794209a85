-- One user's jobs in the order of their ids: the walk that takes them into a count goes on where it was.

-- +goose NO TRANSACTION
-- +goose Up

-- what a run that was interrupted has left
DROP INDEX CONCURRENTLY IF EXISTS jobs_by_user_id;
CREATE INDEX CONCURRENTLY jobs_by_user_id ON jobs (tenant_id, user_id, uuid_send(id)) WHERE user_id IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS jobs_by_user;
