module github.com/forgequeue/forgequeue/shared/outbox

go 1.26.0

require (
	github.com/forgequeue/forgequeue/cmd/supervisor v0.0.0 // tests: a real PostgreSQL
	github.com/forgequeue/forgequeue/shared v0.0.0
	github.com/jackc/pgx/v5 v5.12.0 // PostgreSQL: the producer's transaction, LISTEN
	go.uber.org/goleak v1.3.0 // tests: no goroutine outlives a relay
)

require (
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace (
	github.com/forgequeue/forgequeue/cmd/supervisor => ../../cmd/supervisor
	github.com/forgequeue/forgequeue/shared => ../
)
