-- A destination with an open breaker can be tried before its time.

-- +goose Up

-- How often that was asked for: a core that reads a new number makes its own breaker half-open.
ALTER TABLE queues ADD COLUMN probes bigint NOT NULL DEFAULT 0;
