//go:build full

package main

import (
	coreapp "github.com/forgequeue/forgequeue/core/app"
	"github.com/forgequeue/forgequeue/core/brokers/kafka"
	"github.com/forgequeue/forgequeue/core/brokers/nats"
	"github.com/forgequeue/forgequeue/shared/server/otlp"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

// What the released programs have, and what `make run` does not compile, for it takes a fifth of the time.

func fullBrokers() []coreapp.Broker { return []coreapp.Broker{nats.Protocol(), kafka.Protocol()} }

func exporter() telemetry.Exporter { return otlp.Start }
