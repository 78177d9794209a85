-- Lanes are forgotten when they are empty and unused, and a tenant's lanes and queues are shared between its
-- users: what one user makes does not keep the others out.

-- +goose Up

-- made_for is the user whose job made the lane last, '' where it named none. used_at is when the lane was made
-- or last found in use; retired_at is when it was last seen unused: no core uses it for new jobs any more, and
-- after a while it is deleted.
ALTER TABLE lanes
  ADD COLUMN made_for   text        NOT NULL DEFAULT '',
  ADD COLUMN used_at    timestamptz NOT NULL DEFAULT now(),
  ADD COLUMN retired_at timestamptz;
CREATE INDEX lanes_by_use  ON lanes (used_at)    WHERE retired_at IS NULL;
CREATE INDEX lanes_retired ON lanes (retired_at) WHERE retired_at IS NOT NULL;

ALTER TABLE queues ADD COLUMN made_for text NOT NULL DEFAULT '';
