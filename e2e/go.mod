module github.com/forgequeue/forgequeue/e2e

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1 // histories: is there an order that explains them
	github.com/chromedp/cdproto v0.159.0 // the browser's events: its console, its policy
	github.com/chromedp/chromedp v0.22.1 // the documentation in a real browser
	github.com/compose-spec/compose-go/v2 v2.16.2 // reads docker-compose.yml as docker compose does
	github.com/forgequeue/forgequeue/cmd/supervisor v0.0.0 // PostgreSQL and Redis
	github.com/forgequeue/forgequeue/core v0.0.0 // the names of its metrics
	github.com/forgequeue/forgequeue/gateway v0.0.0 // the names of its metrics
	github.com/forgequeue/forgequeue/shared v0.0.0
	github.com/forgequeue/forgequeue/shared/jobschema v0.0.0 // schemas that a gateway takes
	github.com/forgequeue/forgequeue/shared/outbox v0.0.0 // the relay, in the fault suite
	github.com/forgequeue/forgequeue/shared/server v0.0.0
	github.com/getkin/kin-openapi v0.152.0 // openapi: Swagger 2.0 to OpenAPI 3; answers against the documents
	github.com/google/uuid v1.6.0 // ids of jobs
	github.com/jackc/pgx/v5 v5.12.0 // PostgreSQL
	github.com/modelcontextprotocol/go-sdk v1.8.0 // an agent of /mcp
	github.com/nats-io/nats.go v1.55.0 // tests: a consumer of NATS
	github.com/prometheus/procfs v0.22.0 // bench: CPU time by process
	github.com/rabbitmq/amqp091-go v1.16.0 // tests: a consumer of RabbitMQ
	github.com/redis/go-redis/v9 v9.23.0 // what is in Redis
	github.com/riverqueue/river v0.51.0 // bench: the peer
	github.com/riverqueue/river/riverdriver/riverpgxv5 v0.51.0 // bench: its driver
	github.com/riverqueue/river/rivertype v0.51.0 // bench: its types of answers
	github.com/standard-webhooks/standard-webhooks/libraries v0.0.1 // signatures of webhooks
	github.com/twmb/franz-go v1.22.3 // tests: a consumer of Kafka
	github.com/twmb/franz-go/pkg/kfake v0.0.0-20260918054303-01f206a7e32c // tests: a Kafka
	github.com/zitadel/oidc/v3 v3.52.0 // tests: a provider of sign-in
	go.opentelemetry.io/proto/otlp v1.11.0 // a collector of spans reads what is exported
	go.yaml.in/yaml/v4 v4.0.0-rc.4 // reads the workflows; what compose-go reads with
	google.golang.org/protobuf v1.36.12 // decodes it
)

require (
	code.dny.dev/ssrf v0.3.0 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/bmatcuk/doublestar/v4 v4.10.4 // indirect
	github.com/bytedance/gopkg v0.1.3 // indirect
	github.com/bytedance/sonic v1.15.0 // indirect
	github.com/bytedance/sonic/loader v0.5.0 // indirect
	github.com/caarlos0/env/v11 v11.4.2 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/cloudwego/base64x v0.1.6 // indirect
	github.com/coreos/go-oidc/v3 v3.21.0 // indirect
	github.com/distribution/reference v0.6.0 // indirect
	github.com/docker/go-connections v0.8.2 // indirect
	github.com/docker/go-units v0.5.0 // indirect
	github.com/exaring/otelpgx v0.13.0 // indirect
	github.com/felixge/httpsnoop v1.1.0 // indirect
	github.com/gabriel-vasile/mimetype v1.4.12 // indirect
	github.com/gin-contrib/sse v1.1.0 // indirect
	github.com/gin-gonic/gin v1.12.0 // indirect
	github.com/go-chi/chi/v5 v5.5.0 // indirect
	github.com/go-jose/go-jose/v4 v4.1.9 // indirect
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/go-openapi/jsonpointer v1.0.0 // indirect
	github.com/go-playground/locales v0.14.1 // indirect
	github.com/go-playground/universal-translator v0.18.1 // indirect
	github.com/go-playground/validator/v10 v10.30.1 // indirect
	github.com/go-viper/mapstructure/v2 v2.5.0 // indirect
	github.com/goccy/go-json v0.10.5 // indirect
	github.com/goccy/go-yaml v1.19.2 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/gorilla/mux v1.8.0 // indirect
	github.com/gorilla/securecookie v1.1.2 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.30.0 // indirect
	github.com/hashicorp/golang-lru/v2 v2.0.7 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/json-iterator/go v1.1.12 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/klauspost/cpuid/v2 v2.4.0 // indirect
	github.com/leodido/go-urn v1.4.0 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/mattn/go-shellwords v1.0.12 // indirect
	github.com/mfridman/interpolate v0.0.2 // indirect
	github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd // indirect
	github.com/modern-go/reflect2 v1.0.2 // indirect
	github.com/muhlemmer/gu v0.3.1 // indirect
	github.com/muhlemmer/httpforwarded v0.1.0 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/netresearch/go-cron v0.9.1 // indirect
	github.com/oasdiff/yaml v0.1.1 // indirect
	github.com/oasdiff/yaml3 v0.0.14 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/pelletier/go-toml/v2 v2.2.4 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/pressly/goose/v3 v3.29.0 // indirect
	github.com/prometheus/client_golang v1.25.0 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.72.0 // indirect
	github.com/quic-go/qpack v0.6.0 // indirect
	github.com/quic-go/quic-go v0.59.0 // indirect
	github.com/redis/go-redis/extra/rediscmd/v9 v9.23.0 // indirect
	github.com/redis/go-redis/extra/redisotel/v9 v9.23.0 // indirect
	github.com/riverqueue/river/riverdriver v0.51.0 // indirect
	github.com/riverqueue/river/rivershared v0.51.0 // indirect
	github.com/rs/cors v1.11.1 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // indirect
	github.com/segmentio/asm v1.2.1 // indirect
	github.com/segmentio/encoding v0.5.4 // indirect
	github.com/sethvargo/go-retry v0.5.0 // indirect
	github.com/sirupsen/logrus v1.10.2 // indirect
	github.com/sony/gobreaker/v2 v2.4.0 // indirect
	github.com/swaggest/swgui v1.8.5 // indirect
	github.com/tidwall/gjson v1.20.0 // indirect
	github.com/tidwall/match v1.2.0 // indirect
	github.com/tidwall/pretty v1.2.1 // indirect
	github.com/tidwall/sjson v1.2.5 // indirect
	github.com/twitchyliquid64/golang-asm v0.15.1 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.15.1 // indirect
	github.com/ugorji/go/codec v1.3.1 // indirect
	github.com/vgarvardt/pgx-google-uuid/v5 v5.6.0 // indirect
	github.com/xhit/go-str2duration/v2 v2.1.0 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	github.com/zitadel/schema v1.3.2 // indirect
	go.mongodb.org/mongo-driver/v2 v2.5.0 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp v0.72.0 // indirect
	go.opentelemetry.io/otel v1.47.0 // indirect
	go.opentelemetry.io/otel/log v1.47.0 // indirect
	go.opentelemetry.io/otel/metric v1.47.0 // indirect
	go.opentelemetry.io/otel/trace v1.47.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	golang.org/x/arch v0.22.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/oauth2 v0.38.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/time v0.16.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20261005182115-fad411399dd8 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261005182115-fad411399dd8 // indirect
	google.golang.org/grpc v1.84.0 // indirect
)

replace (
	github.com/forgequeue/forgequeue/cmd/supervisor => ../cmd/supervisor
	github.com/forgequeue/forgequeue/core => ../core
	github.com/forgequeue/forgequeue/gateway => ../gateway
	github.com/forgequeue/forgequeue/shared => ../shared
	github.com/forgequeue/forgequeue/shared/jobschema => ../shared/jobschema
	github.com/forgequeue/forgequeue/shared/outbox => ../shared/outbox
	github.com/forgequeue/forgequeue/shared/server => ../shared/server
)
