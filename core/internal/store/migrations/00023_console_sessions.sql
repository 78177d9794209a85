-- All console sessions of a key can be ended.

-- +goose Up

-- How often that was done: a session that began before the last time is refused.
ALTER TABLE api_keys ADD COLUMN sessions_ended bigint NOT NULL DEFAULT 0;
