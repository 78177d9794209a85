module github.com/forgequeue/forgequeue/gateway

go 1.26.0

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // tests: a Redis that answers nonsense
	github.com/caarlos0/env/v11 v11.4.2 // configuration from the environment, every problem at once
	github.com/coreos/go-oidc/v3 v3.21.0 // sign-in to the console: discovery, ID tokens, UserInfo
	github.com/forgequeue/forgequeue/cmd/supervisor v0.0.0 // tests: PostgreSQL and Redis
	github.com/forgequeue/forgequeue/shared v0.0.0 // the wire types, problems and identity of the hop
	github.com/forgequeue/forgequeue/shared/server v0.0.0 // what both services share
	github.com/gin-gonic/gin v1.12.0 // the router; given
	github.com/go-jose/go-jose/v4 v4.1.9 // tests: the signatures of a provider of sign-in
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3 // strict JSON: case, duplicates, UTF-8, unknown members
	github.com/google/go-cmp v0.7.0 // tests: diffs
	github.com/google/uuid v1.6.0 // ids of jobs, tenants and requests
	github.com/hashicorp/golang-lru/v2 v2.0.7 // keys and buckets in memory, the least recently used leaves first
	github.com/modelcontextprotocol/go-sdk v1.8.0 // the protocol of agents, at /mcp
	github.com/prometheus/client_golang v1.25.0 // request metrics
	github.com/redis/go-redis/v9 v9.23.0 // tests: what is in Redis
	github.com/sony/gobreaker/v2 v2.4.0 // the breakers of the hop and of Redis: rolling window, exclusions
	github.com/swaggest/swgui v1.8.5 // Swagger UI, embedded
	go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp v0.72.0 // traces: a span of each request
	go.opentelemetry.io/otel v1.47.0 // traces: attributes, propagation
	go.opentelemetry.io/otel/sdk v1.47.0 // tests: a recorder of spans
	go.opentelemetry.io/otel/trace v1.47.0 // traces: spans
	go.uber.org/goleak v1.3.0 // tests: no goroutine outlives its test
	golang.org/x/oauth2 v0.38.0 // sign-in to the console: codes with PKCE, refresh tokens
	golang.org/x/sync v0.24.0 // one look-up a key at a time; the run group
	golang.org/x/time v0.16.0 // the limit by address
	pgregory.net/rapid v1.3.0 // tests: property testing
)

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/bytedance/gopkg v0.1.3 // indirect
	github.com/bytedance/sonic v1.15.0 // indirect
	github.com/bytedance/sonic/loader v0.5.0 // indirect
	github.com/cenkalti/backoff/v5 v5.0.3 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/cloudwego/base64x v0.1.6 // indirect
	github.com/davecgh/go-spew v1.1.2-0.20180830191138-d8f796af33cc // indirect
	github.com/felixge/httpsnoop v1.1.0 // indirect
	github.com/gabriel-vasile/mimetype v1.4.12 // indirect
	github.com/gin-contrib/sse v1.1.0 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/go-playground/locales v0.14.1 // indirect
	github.com/go-playground/universal-translator v0.18.1 // indirect
	github.com/go-playground/validator/v10 v10.30.1 // indirect
	github.com/goccy/go-json v0.10.5 // indirect
	github.com/goccy/go-yaml v1.19.2 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.30.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/pgx/v5 v5.12.0 // indirect
	github.com/json-iterator/go v1.1.12 // indirect
	github.com/klauspost/cpuid/v2 v2.4.0 // indirect
	github.com/leodido/go-urn v1.4.0 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd // indirect
	github.com/modern-go/reflect2 v1.0.2 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/pelletier/go-toml/v2 v2.2.4 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.72.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/quic-go/qpack v0.6.0 // indirect
	github.com/quic-go/quic-go v0.59.0 // indirect
	github.com/redis/go-redis/extra/rediscmd/v9 v9.23.0 // indirect
	github.com/redis/go-redis/extra/redisotel/v9 v9.23.0 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // indirect
	github.com/segmentio/asm v1.2.1 // indirect
	github.com/segmentio/encoding v0.5.4 // indirect
	github.com/twitchyliquid64/golang-asm v0.15.1 // indirect
	github.com/ugorji/go/codec v1.3.1 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	go.mongodb.org/mongo-driver/v2 v2.5.0 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel/exporters/otlp/otlptrace v1.47.0 // indirect
	go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp v1.47.0 // indirect
	go.opentelemetry.io/otel/log v1.47.0 // indirect
	go.opentelemetry.io/otel/metric v1.47.0 // indirect
	go.opentelemetry.io/proto/otlp v1.11.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/arch v0.22.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20261005182115-fad411399dd8 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261005182115-fad411399dd8 // indirect
	google.golang.org/grpc v1.84.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace (
	github.com/forgequeue/forgequeue/cmd/supervisor => ../cmd/supervisor
	github.com/forgequeue/forgequeue/shared => ../shared
	github.com/forgequeue/forgequeue/shared/server => ../shared/server
)
