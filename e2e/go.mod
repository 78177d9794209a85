module github.com/forgequeue/forgequeue/e2e

go 1.26.0

require (
	github.com/chromedp/cdproto v0.159.0 // the browser's events: its console, its policy
	github.com/chromedp/chromedp v0.22.1 // the documentation in a real browser
	github.com/compose-spec/compose-go/v2 v2.16.2 // reads docker-compose.yml as docker compose does
	github.com/forgequeue/forgequeue/shared v0.0.0
	github.com/getkin/kin-openapi v0.152.0 // answers against the OpenAPI documents
	github.com/jackc/pgx/v5 v5.12.0 // PostgreSQL
	go.opentelemetry.io/proto/otlp v1.11.0 // a collector of spans reads what is exported
	go.yaml.in/yaml/v4 v4.0.0-rc.4 // reads the workflows; what compose-go reads with
	google.golang.org/protobuf v1.36.12 // decodes it
)

require (
	github.com/distribution/reference v0.6.0 // indirect
	github.com/docker/go-connections v0.8.2 // indirect
	github.com/docker/go-units v0.5.0 // indirect
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3 // indirect
	github.com/go-openapi/jsonpointer v1.0.0 // indirect
	github.com/go-viper/mapstructure/v2 v2.5.0 // indirect
	github.com/gorilla/mux v1.8.0 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.30.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/kr/pretty v0.3.1 // indirect
	github.com/mattn/go-shellwords v1.0.12 // indirect
	github.com/oasdiff/yaml v0.1.1 // indirect
	github.com/oasdiff/yaml3 v0.0.14 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/rogpeppe/go-internal v1.14.1 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // indirect
	github.com/sirupsen/logrus v1.10.2 // indirect
	github.com/xhit/go-str2duration/v2 v2.1.0 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20261005182115-fad411399dd8 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261005182115-fad411399dd8 // indirect
	google.golang.org/grpc v1.84.0 // indirect
)

replace github.com/forgequeue/forgequeue/shared => ../shared
