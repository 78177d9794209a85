// Package admin holds the commands that show and change settings: those of a tenant (queues, budget, webhook, stats, usage, limits, whoami, audit),
// those of the operator (tenant, plan, installation), and key, which is either's.
package admin

import (
	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
)

// Commands are the commands about settings.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{newQueues(a), newBudget(a), newWebhook(a), newStats(a), newUsage(a), newLimits(a), newWhoami(a), newAudit(a), newTenant(a), newKey(a), newPlan(a), newInstallation(a)}
}
