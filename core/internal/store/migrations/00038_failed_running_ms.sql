-- How long attempts ran that failed counts in the ledger, apart from those that completed.

-- +goose Up

ALTER TABLE ledger         ADD COLUMN failed_running_ms bigint NOT NULL DEFAULT 0;
ALTER TABLE ledger_entries ADD COLUMN failed_running_ms bigint NOT NULL DEFAULT 0;
