package main

import (
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
)

// A command that has become a program of its own says so, whatever follows it.
func TestMovedCommandsSayWhereTheyAre(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"bench", "bench submit --up --rate 2000", "bridge --from amqp://127.0.0.1/x"} {
		words := strings.Fields(line)
		code, _, errs := run(t, words...)
		if name := "forgequeue-" + words[0]; code != cli.ExitUsage || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "go run ./cmd/forgequeue/"+name) {
			t.Errorf("%s: exit code %d: %s", line, code, errs)
		}
	}
}
