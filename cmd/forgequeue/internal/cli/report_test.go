package cli

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// A refused field is reported with the command's flag that sets it.
func TestFieldsAreReportedWithTheirFlags(t *testing.T) {
	t.Parallel()
	root, command := &cobra.Command{Use: "forgequeue"}, &cobra.Command{Use: "set", Run: func(*cobra.Command, []string) {}}
	root.AddCommand(command)
	for _, flag := range []string{"retry-base", "every", "timeout", "canary", "canary-timeout", "endpoint", "breaker-calls", "starts", "rate", "data", "catch-up-max", "run-at", "dedupe-key", "on-live", "max-delay"} {
		command.Flags().String(flag, "", "")
	}
	root.PersistentFlags().String("url", "", "")
	for field, want := range map[string]string{
		"retry.base_ms": "--retry-base", "every_ms": "--every", "job.timeout_ms": "--timeout", "canary.count": "--canary",
		"canary.timeout_seconds": "--canary-timeout", "url": "--endpoint", "push.breaker.calls": "--breaker-calls", "starts_at": "--starts",
		"rate_per_second": "--rate", "job.payload": "--data", "catch_up_max": "--catch-up-max", "jobs[3].timeout_ms": "--timeout", "name": "",
		"run_at": "--run-at", "dedupe.key": "--dedupe-key", "dedupe.on_live": "--on-live", "dedupe.max_delay_ms": "--max-delay",
	} {
		if got := fieldFlag(command, field); got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
	command.ResetFlags()
	if got := fieldFlag(command, "url"); got != "" {
		t.Errorf("the server's URL is no field, but %q", got)
	}
	command.Flags().String("every", "", "")
	var out bytes.Buffer
	refused := problem.Invalid(problem.FieldError{Field: "every_ms", Message: "is too short"})
	report(&out, false, command, WithHint(fmt.Errorf("PUT /x: %w", refused), "Do this."))
	if want := "forgequeue: PUT /x was refused: invalid_request (400)\n  every_ms: is too short (--every)\n  Do this.\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	if !errors.Is(WithHint(refused, ""), error(refused)) {
		t.Error("a hint hides the error")
	}
}

// A call that is tried again says so before the pause in which two seconds pass, and once.
func TestRetriesSaySoAfterTwoSeconds(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := newRetries(&Screen{Err: &out})
	try := func(tries int, pause int64) {
		log.Warn("call is tried again", slog.String("call", "POST /v1/jobs"), slog.Int("tries", tries), slog.Int64("wait_ms", pause), slog.String("error", "active_cap_reached: 10 of 10"))
	}
	try(1, 1900)
	try(1, 1000) // of another call
	if out.Len() > 0 {
		t.Fatalf("said too early: %q", out.String())
	}
	try(2, 1100)
	try(3, 1200)
	log.Warn("warning of the server", slog.String("call", "x"))
	if want := "waiting to try again: active_cap_reached: 10 of 10\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	if strings.Count(out.String(), "waiting") != 1 {
		t.Errorf("%q", out.String())
	}
}
