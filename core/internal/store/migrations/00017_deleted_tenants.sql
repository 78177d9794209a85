-- A tenant that is deleted: its data is removed in batches, and its row says so afterwards.

-- +goose Up

-- deleting_at is when the deletion was asked for, deleted_at when nothing was left; removed counts rows.
ALTER TABLE tenants ADD COLUMN deleting_at timestamptz,
                    ADD COLUMN deleted_at  timestamptz,
                    ADD COLUMN removed     bigint NOT NULL DEFAULT 0;
CREATE INDEX tenants_deleting ON tenants (deleting_at) WHERE deleting_at IS NOT NULL AND deleted_at IS NULL;
