package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
)

// Durations are sent in milliseconds: what would become 0 is refused, by every flag of every command.
func TestDurationsBelowAMillisecondAreRefused(t *testing.T) {
	t.Parallel()
	flags := 0
	each(newRoot(cli.Options{}), nil, func(command *cobra.Command, words []string) {
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			if flag.Value.Type() != "duration" {
				return
			}
			flags++
			for _, text := range []string{"999us", "1ns", "-1us"} {
				code, _, errs := run(t, append(slices.Clone(words), "--"+flag.Name+"="+text)...)
				if code != cli.ExitUsage || !strings.Contains(errs, "--"+flag.Name+` "`+text+`": must be 0, or a millisecond or more`) {
					t.Errorf("%q --%s %s: exit code %d %s", words, flag.Name, text, code, errs)
				}
			}
			for _, text := range []string{"0", "1ms", "1500us", "2h"} {
				if _, _, errs := run(t, append(slices.Clone(words), "--"+flag.Name+"="+text)...); strings.Contains(errs, "millisecond or more") {
					t.Errorf("%q --%s %s: %s", words, flag.Name, text, errs)
				}
			}
		})
	})
	if flags < 25 {
		t.Errorf("%d flags are durations", flags)
	}
}
