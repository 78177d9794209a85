module github.com/forgequeue/forgequeue/shared/jobschema

go 1.26.0

require github.com/google/jsonschema-go v0.4.3 // JSON Schemas of Go types
