//go:build !full

package main

import (
	coreapp "github.com/forgequeue/forgequeue/core/app"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

// Without the tag full, the words of core and of telemetry say which program has the rest.

func fullBrokers() []coreapp.Broker { return nil }

func exporter() telemetry.Exporter { return nil }
