package program_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/server/program"
)

// A call finds its command by one or two words, its flags wherever they are, and the settings; the exit code says what
// was wrong.
func TestAProgram(t *testing.T) {
	t.Parallel()
	errSettings := errors.New("a setting is wrong")
	for words, want := range map[string]string{
		"": "serve [] a setting is wrong 1", "serve": "serve [] a setting is wrong 1", "serve x": " 2", "fly": " 2",
		"tenant move a b": "move [a b] abort=false 0", "tenant move a --abort": "move [a] abort=true 0",
		"tenant move --abort=true a": "move [a] abort=true 0", "tenant move": " 2", "tenant": " 2", "tenant move a --fly": " 2", "tenants": " 2",
	} {
		said, abort := "", false
		p := program.Program[string]{Name: "service", Default: program.Serve, Settings: func() (string, error) { return "settings", errSettings }, Commands: []program.Command[string]{
			{Name: program.Serve, Help: "Serve", Run: func(_ context.Context, _ string, err error, c program.Call) error {
				said = fmt.Sprint("serve ", c.Args, " ", err)
				return err
			}},
			{
				Name: "tenant move", Args: "A B", Help: "Move",
				Flags: func(f *flag.FlagSet) { f.BoolVar(&abort, "abort", false, "undo") },
				Accepts: func(args []string) error {
					if len(args) == 0 {
						return errors.New("it needs A")
					}
					return nil
				},
				Run: func(_ context.Context, _ string, _ error, c program.Call) error {
					said = fmt.Sprintf("move %v abort=%v", c.Args, abort)
					return nil
				},
			},
		}}
		code := p.Main(t.Context(), strings.Fields(words))
		if got := fmt.Sprint(said, " ", code); got != want {
			t.Errorf("%q: %q, want %q", words, got, want)
		}
	}
}
