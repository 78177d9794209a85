module github.com/forgequeue/forgequeue/cmd/bench

go 1.26.0

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0 // percentiles
	github.com/forgequeue/forgequeue/cmd/supervisor v0.0.0 // its stack ends with it
	github.com/forgequeue/forgequeue/shared v0.0.0
	github.com/google/uuid v1.6.0 // ids of jobs and tenants, as a gateway draws them
	github.com/jackc/pgx/v5 v5.12.0 // holds a snapshot on PostgreSQL
	github.com/schollz/progressbar/v3 v3.19.1 // progress on a terminal while it runs
	github.com/spf13/cobra v1.10.2 // the command
	github.com/spf13/pflag v1.0.9 // its flags
	golang.org/x/term v0.47.0 // progress only where a person reads
)

require (
	github.com/forgequeue/forgequeue/shared/server v0.0.0
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/mitchellh/colorstring v0.0.0-20190213212951-d06e56a500db // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	gonum.org/v1/gonum v0.17.0 // indirect
)

replace github.com/forgequeue/forgequeue/shared => ../../shared

replace github.com/forgequeue/forgequeue/cmd/supervisor => ../supervisor

replace github.com/forgequeue/forgequeue/shared/server => ../../shared/server
