-- Types of jobs, with a JSON Schema for their payloads and results.

-- +goose Up

-- Grows with each change of a tenant's types; 0: it never had any. Gateways get it with a key, and cores with a
-- tenant's limits. A gateway or core of the version before does not read it, and checks nothing while it runs
-- beside this one.
ALTER TABLE tenants ADD COLUMN types_version bigint NOT NULL DEFAULT 0;
-- whether a type of the tenant has its results checked
ALTER TABLE tenants ADD COLUMN checks_results boolean NOT NULL DEFAULT false;

-- A row for each version that is kept of a type. It does not change, but for newest.
CREATE TABLE job_types (
  tenant_id      uuid        NOT NULL,
  type           text        NOT NULL,
  version        integer     NOT NULL CHECK (version >= 1),
  -- tenants.types_version since this version: it is of this row alone
  revision       bigint      NOT NULL,
  newest         boolean     NOT NULL,
  description    text        NOT NULL,
  -- json, not jsonb: as they were sent, but for white space
  payload_schema json,
  result_schema  json,
  check_results  boolean     NOT NULL,
  examples       json        NOT NULL,
  defaults       json        NOT NULL,
  -- the bytes of the texts
  size           integer     NOT NULL,
  created_at     timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, type, version)
);
CREATE UNIQUE INDEX job_types_newest ON job_types (tenant_id, type) WHERE newest;
