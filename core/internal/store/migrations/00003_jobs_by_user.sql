-- Counting one user's live jobs must not read all of the tenant's: a user's cap is asked about at his first
-- submit, under his tenant's lock.

-- +goose NO TRANSACTION
-- +goose Up

CREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_by_user ON jobs (tenant_id, user_id) WHERE user_id IS NOT NULL;
