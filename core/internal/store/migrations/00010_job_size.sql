-- How much of a claim's answer a job takes, so that a claim can be bounded in bytes without reading payloads.

-- +goose Up

-- Bytes of payload, metadata and tags as text, written with the job. Null where an older binary, or a
-- redrive, stored it: then the claim measures the texts themselves.
ALTER TABLE jobs ADD COLUMN size integer;
