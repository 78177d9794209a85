package jobs_test

import (
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
)

// A terminal shows colours, unless it takes none or nobody wants them.
func TestColoursOnATerminal(t *testing.T) {
	f := commandtest.New(t)
	queue := f.Queue()
	f.Submitted("mail", "--queue", queue, "--delay", "1h")
	for _, c := range []struct {
		name, value string
		coloured    bool
	}{{"TERM", "xterm", true}, {"TERM", "", true}, {"TERM", "dumb", false}, {"NO_COLOR", "1", false}} {
		got := f.With(c.name, c.value).OnTerminal(f.Context(), 120, 20, "jobs", "--queue", queue).Wait()
		if got.Code != 0 || strings.Contains(got.Out, "\x1b[33mscheduled") != c.coloured || !strings.Contains(got.Out, "scheduled") {
			t.Errorf("%s=%s: %d %q %s", c.name, c.value, got.Code, got.Out, got.Err)
		}
	}
}
