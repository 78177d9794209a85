-- Ids of lanes are never used again, so they are bigint: with integer, one tenant that makes and deletes queues
-- used them up for all. It rewrites the tables that name a lane.

-- +goose Up

ALTER TABLE typed_lanes    ALTER COLUMN id TYPE bigint;
ALTER TABLE lanes          ALTER COLUMN id TYPE bigint;
ALTER TABLE jobs           ALTER COLUMN lane_id TYPE bigint;
ALTER TABLE finished_jobs  ALTER COLUMN lane_id TYPE bigint;
ALTER TABLE dead_letters   ALTER COLUMN lane_id TYPE bigint;
ALTER TABLE webhook_events ALTER COLUMN lane_id TYPE bigint;
ALTER TABLE drain_reports  ALTER COLUMN lanes TYPE bigint[];
