-- Keys sort by their bytes, whatever the collation of the database: pages of lists and unique indexes do not depend on
-- the operating system's collation, which changes with its version. It rebuilds the indexes of these columns.

-- +goose Up

ALTER TABLE api_keys         ALTER COLUMN key_id TYPE text COLLATE "C";
ALTER TABLE dead_letters     ALTER COLUMN queue TYPE text COLLATE "C";
ALTER TABLE idempotency_keys ALTER COLUMN user_id TYPE text COLLATE "C", ALTER COLUMN operation TYPE text COLLATE "C",
                             ALTER COLUMN key TYPE text COLLATE "C";
ALTER TABLE job_stats        ALTER COLUMN queue TYPE text COLLATE "C";
ALTER TABLE job_types        ALTER COLUMN type TYPE text COLLATE "C";
ALTER TABLE jobs             ALTER COLUMN dedupe_key TYPE text COLLATE "C", ALTER COLUMN user_id TYPE text COLLATE "C";
ALTER TABLE lanes            ALTER COLUMN queue TYPE text COLLATE "C", ALTER COLUMN tags TYPE text[] COLLATE "C",
                             ALTER COLUMN capped_user TYPE text COLLATE "C";
ALTER TABLE ledger           ALTER COLUMN by TYPE text COLLATE "C", ALTER COLUMN name TYPE text COLLATE "C";
ALTER TABLE limit_stats      ALTER COLUMN name TYPE text COLLATE "C";
ALTER TABLE plans            ALTER COLUMN name TYPE text COLLATE "C";
ALTER TABLE processes        ALTER COLUMN id TYPE text COLLATE "C";
ALTER TABLE queues           ALTER COLUMN name TYPE text COLLATE "C";
ALTER TABLE rate_log         ALTER COLUMN queue TYPE text COLLATE "C";
ALTER TABLE schedules        ALTER COLUMN name TYPE text COLLATE "C";
ALTER TABLE schedule_runs    ALTER COLUMN name TYPE text COLLATE "C";
ALTER TABLE typed_lanes      ALTER COLUMN queue TYPE text COLLATE "C", ALTER COLUMN type TYPE text COLLATE "C",
                             ALTER COLUMN tags TYPE text[] COLLATE "C", ALTER COLUMN capped_user TYPE text COLLATE "C";
ALTER TABLE usage_counts     ALTER COLUMN name TYPE text COLLATE "C";
ALTER TABLE usage_credits    ALTER COLUMN name TYPE text COLLATE "C";
ALTER TABLE usage_log        ALTER COLUMN name TYPE text COLLATE "C";
ALTER TABLE webhooks         ALTER COLUMN name TYPE text COLLATE "C";
ALTER TABLE workers          ALTER COLUMN worker_id TYPE text COLLATE "C";
ALTER TABLE workflow_jobs    ALTER COLUMN ref TYPE text COLLATE "C";
