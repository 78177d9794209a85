-- Workflows: a name for jobs that come after each other. Their state is read from their jobs.

-- +goose Up

CREATE TABLE workflows (
  id         uuid PRIMARY KEY,
  tenant_id  uuid        NOT NULL,
  -- the user that the credential was bound to; null for none
  user_id    text,
  name       text        NOT NULL,
  metadata   json        NOT NULL,
  created_at timestamptz NOT NULL
);
-- For lists, newest id first; see jobs_by_tenant.
CREATE INDEX workflows_by_tenant ON workflows (tenant_id, uuid_send(id));

CREATE TABLE workflow_jobs (
  workflow_id uuid NOT NULL,
  ref         text NOT NULL,
  job_id      uuid NOT NULL,
  PRIMARY KEY (workflow_id, ref)
);
CREATE UNIQUE INDEX workflow_jobs_by_job ON workflow_jobs (job_id);
