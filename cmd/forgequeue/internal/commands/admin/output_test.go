package admin_test

import (
	"os"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
)

// Output that could not be written is a failure, in every form and by every way of writing.
func TestAFullDiskIsAFailure(t *testing.T) {
	f := commandtest.New(t)
	for _, args := range [][]string{
		{"whoami"}, {"version"}, {"key", "list"}, {"queues"}, {"limits"}, {"stats"}, {"open", "docs", "--print"}, {"key", "create"},
	} {
		for _, form := range []string{"table", "json", "jsonl", "name"} {
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if err != nil {
				t.Skip("this machine has no /dev/full")
			}
			command := append(append([]string{}, args...), "-o", form)
			if shown := f.Run(command...); shown.Code != 0 || shown.Out == "" {
				continue // this command has no such form, or nothing to show
			}
			var errs commandtest.Buffer
			code := f.Start(full, &errs, "")(t.Context(), command...)
			if code != 1 || !strings.Contains(errs.String(), "no space left") {
				t.Errorf("%v: exit code %d, %s", command, code, errs.String())
			}
			if args[0] == "key" && args[1] == "create" && !strings.Contains(errs.String(), "revoke") {
				t.Errorf("%v does not say which key to revoke: %s", command, errs.String())
			}
			_ = full.Close()
		}
	}
}
