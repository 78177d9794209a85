// ForgeQueue's peers, run in turn with it: `make peers`. A module of its own, outside
// the workspace: River's needs are not the product's, and no build of the product
// reads them. Build it with GOWORK=off, as the Makefile does.
module github.com/forgequeue/forgequeue/e2e/bench

go 1.26.0

require (
	github.com/forgequeue/forgequeue/cmd/supervisor v0.0.0 // PostgreSQL and Redis, for both
	github.com/forgequeue/forgequeue/shared v0.0.0
	github.com/jackc/pgx/v5 v5.12.0 // PostgreSQL, for River and for what the server counts
	github.com/prometheus/procfs v0.23.0 // CPU time by process
	github.com/riverqueue/river v0.51.0 // the peer
	github.com/riverqueue/river/riverdriver/riverpgxv5 v0.51.0 // its driver
	github.com/riverqueue/river/rivertype v0.51.0 // its types of answers
)

require (
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/riverqueue/river/riverdriver v0.51.0 // indirect
	github.com/riverqueue/river/rivershared v0.51.0 // indirect
	github.com/tidwall/gjson v1.20.0 // indirect
	github.com/tidwall/match v1.2.0 // indirect
	github.com/tidwall/pretty v1.2.1 // indirect
	github.com/tidwall/sjson v1.2.5 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace github.com/forgequeue/forgequeue/shared => ../../shared

replace github.com/forgequeue/forgequeue/cmd/supervisor => ../../cmd/supervisor
