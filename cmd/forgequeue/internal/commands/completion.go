package commands

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// completed is how many names a completion reads: one request.
const completed = 50

// listing reads the names that complete an argument, each maybe with a tab and a description.
type listing func(ctx context.Context, c *client.Client) ([]cobra.Completion, error)

// complete sets what the arguments and flags of commands are completed with, by their paths.
func complete(a *cli.App, all []*cobra.Command) {
	byPath := map[string]listing{
		"jobs get": jobsIn(), "jobs watch": jobsIn(), "jobs attempts": jobsIn(), "jobs parents": jobsIn(),
		"jobs cancel":  jobsIn(api.StateBlocked, api.StateScheduled, api.StateQueued, api.StateRunning),
		"jobs rerun":   jobsIn(api.StateCompleted, api.StateCancelled, api.StateDeadLetter),
		"jobs delete":  jobsIn(api.StateCompleted, api.StateCancelled, api.StateDeadLetter),
		"jobs redrive": jobsIn(api.StateDeadLetter), "dead-letters redrive": jobsIn(api.StateDeadLetter), "dead-letters discard": jobsIn(api.StateDeadLetter),
		"queues get": queueNames, "queues set": queueNames, "queues pause": queueNames, "queues resume": queueNames, "queues delete": queueNames,
		"schedule get": scheduleNames, "schedule set": scheduleNames, "schedule pause": scheduleNames, "schedule resume": scheduleNames,
		"schedule trigger": scheduleNames, "schedule runs": scheduleNames, "schedule delete": scheduleNames,
		"workflow get": workflowIDs, "workflow watch": workflowIDs, "workflow cancel": workflowIDs, "workflow redrive": workflowIDs, "workflow add": workflowIDs,
		"redrives get": redriveIDs, "redrives watch": redriveIDs, "redrives cancel": redriveIDs, "worker health": workerIDs,
	}
	ofOperator := map[string]listing{
		"tenant get": tenantIDs, "tenant set": tenantIDs, "tenant delete": tenantIDs, "key create": tenantIDs, "key list": tenantIDs,
	}
	for _, command := range all {
		each(command, "", func(path string, command *cobra.Command) {
			if list := byPath[path]; list != nil {
				command.ValidArgsFunction = a.Completion(list)
			}
			if list := ofOperator[path]; list != nil {
				command.ValidArgsFunction = a.OperatorCompletion(list)
			}
			// These fail only for a flag that is not there, or is completed already.
			_ = command.RegisterFlagCompletionFunc("queue", a.Completion(queueNames))
			_ = command.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states(), cobra.ShellCompDirectiveNoFileComp))
			_ = command.RegisterFlagCompletionFunc("scopes", cobra.FixedCompletions(api.Scopes(), cobra.ShellCompDirectiveNoFileComp))
		})
	}
}

// each calls do for a command and those below it, with their paths.
func each(command *cobra.Command, above string, do func(path string, command *cobra.Command)) {
	path := strings.TrimSpace(above + " " + command.Name())
	do(path, command)
	for _, below := range command.Commands() {
		each(below, path, do)
	}
}

func states() []string {
	return []string{
		api.StateBlocked, api.StateScheduled, api.StateQueued, api.StateRunning, api.StateCompleted, api.StateDeadLetter, api.StateCancelled,
	}
}

// jobsIn lists the newest jobs in some states, in all if none is given.
func jobsIn(states ...string) listing {
	return func(ctx context.Context, c *client.Client) (found []cobra.Completion, _ error) {
		page, err := c.List(ctx, api.JobFilter{States: states}, client.PageRequest{Size: completed})
		for _, job := range page.Items {
			found = append(found, described(job.ID, job.Type+", "+job.State))
		}
		return found, err
	}
}

func queueNames(ctx context.Context, c *client.Client) (found []cobra.Completion, _ error) {
	page, err := c.Queues(ctx, client.PageRequest{Size: completed})
	for _, queue := range page.Items {
		found = append(found, queue.Name)
	}
	return found, err
}

func scheduleNames(ctx context.Context, c *client.Client) (found []cobra.Completion, _ error) {
	page, err := c.Schedules(ctx, client.PageRequest{Size: completed})
	for _, schedule := range page.Items {
		found = append(found, described(schedule.Name, schedule.Job.Type))
	}
	return found, err
}

func workflowIDs(ctx context.Context, c *client.Client) (found []cobra.Completion, _ error) {
	page, err := c.Workflows(ctx, api.WorkflowFilter{}, client.PageRequest{Size: completed})
	for _, workflow := range page.Items {
		found = append(found, described(workflow.ID, workflow.Name+", "+workflow.State))
	}
	return found, err
}

func redriveIDs(ctx context.Context, c *client.Client) (found []cobra.Completion, _ error) {
	page, err := c.Redrives(ctx, client.PageRequest{Size: completed})
	for _, redrive := range page.Items {
		found = append(found, described(redrive.ID, redrive.Action+", "+redrive.State))
	}
	return found, err
}

func workerIDs(ctx context.Context, c *client.Client) (found []cobra.Completion, _ error) {
	page, err := c.Workers(ctx, client.PageRequest{Size: completed})
	for _, worker := range page.Items {
		found = append(found, described(worker.WorkerID, worker.Status))
	}
	return found, err
}

func tenantIDs(ctx context.Context, c *client.Client) (found []cobra.Completion, _ error) {
	page, err := c.ListTenants(ctx, client.PageRequest{Size: completed})
	for _, tenant := range page.Items {
		found = append(found, described(tenant.ID, tenant.Name))
	}
	return found, err
}

// described is a completion with a description. Both are text of other users: the shell must not read more into it.
func described(name, text string) cobra.Completion {
	return cobra.CompletionWithDesc(cli.Visible(name), cli.Visible(text))
}
