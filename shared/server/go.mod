// What the services of this repository share. It is published because they are, and promises nothing to other programs:
// names and behaviour change from one version to the next. Programs of users take module shared.
module github.com/forgequeue/forgequeue/shared/server

go 1.26.0

require (
	github.com/caarlos0/env/v11 v11.4.2 // settings from the environment
	github.com/forgequeue/forgequeue/shared v0.0.0
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3 // job types: values to be checked, in half of encoding/json's time
	github.com/prometheus/client_golang v1.25.0 // metrics registry and exposition of both services
	github.com/redis/go-redis/extra/redisotel/v9 v9.23.0 // traces: calls of Redis
	github.com/redis/go-redis/v9 v9.23.0 // Redis: the limiter, hints between processes
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // job types: JSON Schema 2020-12, which passes the standard's suite
	go.opentelemetry.io/otel v1.47.0 // traces: attributes, propagation
	go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp v1.47.0 // traces: export over HTTP
	go.opentelemetry.io/otel/sdk v1.47.0 // traces: sampling, batches, resource
	go.opentelemetry.io/otel/trace v1.47.0 // traces: spans
	go.uber.org/goleak v1.3.0 // tests: no goroutine outlives its server
	pgregory.net/rapid v1.3.0 // tests: property testing
)

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cenkalti/backoff/v5 v5.0.3 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.30.0 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.72.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/redis/go-redis/extra/rediscmd/v9 v9.23.0 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel/exporters/otlp/otlptrace v1.47.0 // indirect
	go.opentelemetry.io/otel/log v1.47.0 // indirect
	go.opentelemetry.io/otel/metric v1.47.0 // indirect
	go.opentelemetry.io/proto/otlp v1.11.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20261005182115-fad411399dd8 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261005182115-fad411399dd8 // indirect
	google.golang.org/grpc v1.84.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace github.com/forgequeue/forgequeue/shared => ../
