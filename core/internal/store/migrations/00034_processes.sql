-- What serves the installation, and when it was verified, for the operator.

-- +goose Up

-- In the home cell: cores and gateways, as they report themselves. One that is stopped deletes its row.
CREATE TABLE processes (
  -- drawn when it is started
  id         text        PRIMARY KEY,
  kind       text        NOT NULL CHECK (kind IN ('core', 'gateway')),
  address    text        NOT NULL,
  version    text        NOT NULL,
  started_at timestamptz NOT NULL,
  seen_at    timestamptz NOT NULL
);

-- When it was last found whether counts have drifted, by `core verify` and by a core's own recount: at most one row.
CREATE TABLE verification (
  one         boolean PRIMARY KEY DEFAULT true CHECK (one),
  verified_at timestamptz,
  violations  bigint,
  -- the end of a core's last round through all counts of caps
  counted_at  timestamptz,
  drift       bigint
);
