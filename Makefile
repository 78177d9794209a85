# `make` lists the targets. The first two are all that a fresh machine needs.
# Checks live in .ci/run, needs of the machine in .ci/install.

include .ci/flags

GO           = PATH="$$PATH:/usr/local/go/bin" go
# As make run builds, so that what one has compiled the other finds. GOWORK=off gives the same.
BUILD_FLAGS  = -tags=$(BUILD_TAGS) -gcflags=$(BUILD_GCFLAGS) -ldflags=$(BUILD_LDFLAGS)
ARGS        ?=

.PHONY: help run test test-slow build lint fmt drift tidy api-docs clients pictures migrations-seal mutants faults peers pgo secrets compose-smoke ci clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## start everything and do real jobs: go run -tags=nomsgpack ./cmd/forgequeue up $(ARGS)
	@exec sh .ci/start $(ARGS)

test: ## every test of every module, beside one PostgreSQL and one Redis; PACKAGES, TEST_FLAGS and others: see .ci/test
	@sh .ci/install test
	@bash .ci/test

test-slow: ## the tests with half a CPU (Linux, root), then beside four busy loops; ARGS=half or busy: one
	@bash .ci/test-slow $(ARGS)

build: ## the programs, into bin/
	$(GO) build $(BUILD_FLAGS) -tags=$(BUILD_TAGS),full -pgo=cmd/forgequeue/default.pgo -o bin/ ./cmd/forgequeue ./cmd/forgequeue/forgequeue-bench ./cmd/forgequeue/forgequeue-bridge ./core/cmd/core ./gateway/cmd/gateway

lint: ## sizes, workflows, linters (formats and vet are among them)
	@bash .ci/run size workflows lint

fmt: ## format the code in place
	@bash .ci/run fmt

drift: ## what is generated, sealed or derived is up to date
	@bash .ci/run migrations openapi tidy work standalone release

tidy: ## mend go.mod, go.sum and go.work.sum
	@bash .ci/run retidy

api-docs: ## write api-docs/*.json, the OpenAPI documents, from the comments beside the handlers
	@bash .ci/run apidocs

clients: ## write the JavaScript of api-docs/examples/typescript from its source
	@bash .ci/run clients

pictures: ## make the pictures of README and api-docs/console.md, by Chromium
	@bash .ci/run pictures

migrations-seal: ## write down the checksum of a new migration
	@bash .ci/run seal

mutants: ## break the rules on purpose, one by one: the tests must notice each
	@bash .ci/mutants

faults: ## the fault suite, long: kills, pauses, crashes, lost replies (an hour or more)
	@sh .ci/install ci
	FORGEQUEUE_FAULTS=long $(GO) test -race -timeout 3h -count=1 -v ./e2e/faults
	FORGEQUEUE_FAULTS=long $(GO) test -race -timeout 1h -count=1 -v -run 'ALargeWorkflow|ALongChain' ./core/internal/submits ./e2e

peers: ## River and this in turn on one PostgreSQL: the ratios of the bars (15 min; ARGS=-quick: 4 min; with Hatchet: -hatchet CLONE)
	@sh .ci/install test
	cd e2e/bench && $(GO) run . $(ARGS)

pgo: ## profile both services under forgequeue-bench: cmd/forgequeue/default.pgo (2 to 5 min)
	@sh .ci/install test
	@bash .ci/pgo $(ARGS)

secrets: ## make what docker compose needs and nobody may know: secrets/ and .env, mode 0600
	@sh .ci/secrets

compose-smoke: ## docker-compose.yml for real, in a copy: up, a job, down, up, scale, rolling restart
	@bash .ci/compose-smoke

ci: ## all that CI runs
	@bash .ci/run

clean: ## remove what was built
	rm -rf bin .ci/tools/bin
