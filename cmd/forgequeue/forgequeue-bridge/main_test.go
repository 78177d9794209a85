package main

import (
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/cmd/supervisor/brokertest"
)

func TestMain(m *testing.M) { commandtest.MainOf(m, newRoot, brokertest.Stop) }
