module github.com/forgequeue/forgequeue/e2e

go 1.26.0

require (
	github.com/compose-spec/compose-go/v2 v2.16.2 // reads docker-compose.yml as docker compose does
	github.com/forgequeue/forgequeue/shared v0.0.0
	github.com/jackc/pgx/v5 v5.12.0 // PostgreSQL
	go.yaml.in/yaml/v4 v4.0.0-rc.4 // reads the workflows; what compose-go reads with
)

require (
	github.com/distribution/reference v0.6.0 // indirect
	github.com/docker/go-connections v0.8.2 // indirect
	github.com/docker/go-units v0.5.0 // indirect
	github.com/go-viper/mapstructure/v2 v2.4.0 // indirect
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/mattn/go-shellwords v1.0.12 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.1 // indirect
	github.com/sirupsen/logrus v1.10.2 // indirect
	github.com/xhit/go-str2duration/v2 v2.1.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace github.com/forgequeue/forgequeue/shared => ../shared
