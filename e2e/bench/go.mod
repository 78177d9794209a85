// ForgeQueue's peers, run in turn with it: `make peers`. A module of its own, outside
// the workspace: River's needs are not the product's, and no build of the product
// reads them. Build it with GOWORK=off, as the Makefile does.
module github.com/forgequeue/forgequeue/e2e/bench

go 1.26.0

require (
	github.com/forgequeue/forgequeue/shared v0.0.0
	github.com/jackc/pgx/v5 v5.12.0 // PostgreSQL, for River and for what the server counts
	github.com/riverqueue/river v0.51.0 // the peer
	github.com/riverqueue/river/riverdriver/riverpgxv5 v0.51.0 // its driver
)

replace github.com/forgequeue/forgequeue/shared => ../../shared
