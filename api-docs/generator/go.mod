// The generator of api-docs/*.json. A module of its own: what it needs is not the services'.
module github.com/forgequeue/forgequeue/api-docs/generator

go 1.26.0

require (
	github.com/forgequeue/forgequeue/shared v0.0.0 // the sizes, codes and words that the documents tell of
	github.com/getkin/kin-openapi v0.152.0 // Swagger 2.0 to OpenAPI 3, and its validation
)

require (
	github.com/forgequeue/forgequeue/shared/server v0.0.0
	github.com/go-openapi/jsonpointer v1.0.0 // indirect
	github.com/kr/pretty v0.3.1 // indirect
	github.com/oasdiff/yaml v0.1.1 // indirect
	github.com/oasdiff/yaml3 v0.0.14 // indirect
	github.com/rogpeppe/go-internal v1.14.1 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace github.com/forgequeue/forgequeue/shared => ../../shared

replace github.com/forgequeue/forgequeue/shared/server => ../../shared/server
