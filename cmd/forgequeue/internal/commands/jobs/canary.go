package jobs

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
)

// canaryFlags are the flags of a redrive that queues a sample first.
type canaryFlags struct {
	command *cobra.Command
	count   int
	success float64
	timeout time.Duration
}

func (c *canaryFlags) flags(command *cobra.Command) {
	c.command = command
	command.Flags().IntVar(&c.count, "canary", 0, "by filter: queue a sample of this size first, and the others only after it has passed")
	command.Flags().Float64Var(&c.success, "success", 0.9, "with --canary: the share of the sample that must complete")
	command.Flags().DurationVar(&c.timeout, "canary-timeout", api.DefaultCanaryTimeout*time.Second, "with --canary: the time in which the sample must end")
}

// given is false for a discard, which has no such flags.
func (c *canaryFlags) given() bool {
	return c.command != nil && c.command.Flags().Changed("canary")
}

// check refuses what would be ignored, and what a dry run would not find; the server checks the values too.
func (c *canaryFlags) check() error {
	if c.command == nil {
		return nil
	}
	if c.given() {
		switch {
		case c.success <= 0 || c.success > 1:
			return cli.Usage("--success %g: must be above 0 and at most 1, such as 0.9", c.success)
		case c.count < 1:
			return cli.Usage("--canary %d: must be 1 or more", c.count)
		}
		return nil
	}
	for _, name := range []string{"success", "canary-timeout"} {
		if c.command.Flags().Changed(name) {
			return cli.Usage("--%s requires --canary", name)
		}
	}
	return nil
}

func (c *canaryFlags) request() api.CanaryRequest {
	seconds := int(c.timeout / time.Second)
	return api.CanaryRequest{Count: c.count, Success: c.success, TimeoutSeconds: &seconds}
}

// canaryLine is the state of a sample in a line.
func canaryLine(c *api.Canary) string {
	return fmt.Sprintf("%s: %d of %d jobs were queued, %d completed, %d failed, %d have not ended; %g must complete",
		c.State, c.Sampled, c.Count, c.Completed, c.Failed, c.Waiting, c.Success)
}

// canaryNote is what follow says when a sample comes into a state; empty where there is nothing to say.
func canaryNote(r api.Redrive) string {
	switch r.Canary.State {
	case api.CanaryWaiting:
		return fmt.Sprintf("a sample of %d is queued again; the others follow when it has passed", r.Canary.Sampled)
	case api.CanaryPassed:
		return fmt.Sprintf("the sample has passed (%d completed, %d failed); the others follow", r.Canary.Completed, r.Canary.Failed)
	}
	return ""
}
