-- A deleted queue leaves a row behind for an hour, so that cores forget its settings.

-- +goose Up

-- A queue is deleted while deleted_at equals updated_at: any change of the row, by an older binary too, brings it back.
ALTER TABLE queues ADD COLUMN deleted_at timestamptz;
CREATE INDEX queues_deleted ON queues (deleted_at, tenant_id, name) WHERE deleted_at IS NOT NULL;
