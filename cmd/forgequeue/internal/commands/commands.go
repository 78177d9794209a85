// Package commands holds the commands that call a running ForgeQueue over its public API. Each package below it
// has those of one purpose:
//
//	jobs       submit, job, jobs, dead-letters, redrives, schedule, type
//	workflows  workflow
//	relay      relay
//	work       worker, workers
//	admin      queues, webhook, stats, usage, limits, whoami, audit; for the operator tenant, key, plan
//	apply      apply
//	doctor     doctor
//
// open, profile, version and what completes arguments are in this package.
//
// What all of them share is in package cli.
package commands

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/admin"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/apply"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/doctor"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/jobs"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/relay"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/work"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/workflows"
)

// New makes all commands, for a root command to add.
func New(options cli.Options) []*cobra.Command {
	a := cli.New(options)
	calling := slices.Concat(jobs.Commands(a), work.Commands(a), admin.Commands(a), []*cobra.Command{apply.Command(a), workflows.Command(a), relay.Command(a), newOpen(a)})
	for _, command := range calling {
		a.ServerFlags(command)
	}
	all := slices.Concat(calling, []*cobra.Command{doctor.Command(a), newVersion(a), newProfile(a)})
	for _, command := range all {
		cli.OutputFlag(command)
	}
	complete(a, calling)
	return all
}
