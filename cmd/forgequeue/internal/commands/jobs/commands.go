// Package jobs holds the commands about jobs: submit them, look at them, wait for them, and redrive or discard dead
// letters; schedules, which submit them; and types, which say what they look like.
package jobs

import (
	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
)

// Commands are the commands about jobs.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{newSubmit(a), newJobs(a), newDeadLetters(a), newRedrives(a), newBulk(a), newUser(a), newSchedule(a), newType(a)}
}
