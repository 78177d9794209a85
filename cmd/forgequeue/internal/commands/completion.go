package commands

import (
	"context"
	"slices"
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
		"submit": typeNames(), "job get": jobsIn(), "job watch": jobsIn(), "job logs": jobsIn(), "job attempts": jobsIn(), "job parents": jobsIn(),
		"job cancel":  jobsIn(api.StateBlocked, api.StateScheduled, api.StateWaiting, api.StateQueued, api.StateRunning),
		"job change":  jobsIn(api.StateBlocked, api.StateScheduled, api.StateWaiting, api.StateQueued),
		"job rerun":   jobsIn(api.StateCompleted, api.StateCancelled, api.StateDeadLetter),
		"job delete":  jobsIn(api.StateCompleted, api.StateCancelled, api.StateDeadLetter),
		"job redrive": jobsIn(api.StateDeadLetter), "dead-letter redrive": jobsIn(api.StateDeadLetter), "dead-letter discard": jobsIn(api.StateDeadLetter),
		"queue get": queueNames(), "queue set": queueNames(), "queue pause": queueNames(), "queue resume": queueNames(), "queue probe": queueNames(), "queue delete": queueNames(),
		"schedule get": scheduleNames(), "schedule set": scheduleNames(), "schedule pause": scheduleNames(), "schedule resume": scheduleNames(),
		"schedule trigger": scheduleNames(), "schedule runs": scheduleNames(), "schedule delete": scheduleNames(),
		"type get": jobTypeNames(), "type set": jobTypeNames(), "type versions": jobTypeNames(), "type delete": jobTypeNames(),
		"webhook get": webhookNames(), "webhook set": webhookNames(), "webhook test": webhookNames(), "webhook probe": webhookNames(), "webhook rotate-secret": webhookNames(), "webhook delete": webhookNames(),
		"workflow get": workflowIDs(), "workflow watch": workflowIDs(), "workflow cancel": workflowIDs(), "workflow redrive": workflowIDs(), "workflow add": workflowIDs(),
		"redrive get": redriveIDs(), "redrive watch": redriveIDs(), "redrive cancel": redriveIDs(), "worker health": workerIDs(),
	}
	ofOperator := map[string]listing{
		"tenant get": tenantIDs(), "tenant set": tenantIDs(), "tenant delete": tenantIDs(), "key create": tenantIDs(), "key list": tenantIDs(),
		"plan get": planNames(), "plan set": planNames(),
	}
	for _, command := range all {
		each(command, "", func(path string, command *cobra.Command) {
			if list := byPath[path]; list != nil {
				command.ValidArgsFunction = a.Completion(list)
			}
			if path == "job signal" || path == "job signal-link" {
				command.ValidArgsFunction = waitingThenSignals(a)
			}
			if list := ofOperator[path]; list != nil {
				command.ValidArgsFunction = a.OperatorCompletion(list)
			}
			// These fail only for a flag that is not there, or is completed already.
			_ = command.RegisterFlagCompletionFunc("queue", a.Completion(queueNames()))
			_ = command.RegisterFlagCompletionFunc("type", a.Completion(typeNames()))
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
		api.StateBlocked, api.StateScheduled, api.StateWaiting, api.StateQueued, api.StateRunning, api.StateCompleted, api.StateDeadLetter, api.StateCancelled,
	}
}

// listed makes a listing of a list of the API.
func listed[T any](read func(*client.Client, context.Context, client.PageRequest) (api.Page[T], error), show func(T) cobra.Completion) listing {
	return func(ctx context.Context, c *client.Client) (found []cobra.Completion, _ error) {
		page, err := read(c, ctx, client.PageRequest{Size: completed})
		for _, one := range page.Items {
			found = append(found, show(one))
		}
		return found, err
	}
}

// jobsIn lists the newest jobs in some states, in all if none is given.
func jobsIn(states ...string) listing {
	return listed(func(c *client.Client, ctx context.Context, page client.PageRequest) (api.Page[api.JobSummary], error) {
		return c.List(ctx, api.JobFilter{States: states}, page)
	}, func(j api.JobSummary) cobra.Completion { return described(j.ID, j.Type+", "+j.State) })
}

// waitingThenSignals completes a job that waits, then what it waits for.
func waitingThenSignals(a *cli.App) cobra.CompletionFunc {
	jobs := a.Completion(jobsIn(api.StateWaiting))
	return func(command *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return jobs(command, args, begun)
		}
		return a.Completion(func(ctx context.Context, c *client.Client) ([]cobra.Completion, error) {
			job, err := c.Get(ctx, args[0])
			return job.WaitingFor, err
		})(command, args, begun)
	}
}

// typeNames are the types of the newest jobs.
func typeNames() listing {
	return func(ctx context.Context, c *client.Client) (found []cobra.Completion, _ error) {
		page, err := c.List(ctx, api.JobFilter{}, client.PageRequest{Size: completed})
		for _, job := range page.Items {
			if !slices.Contains(found, job.Type) {
				found = append(found, job.Type)
			}
		}
		return found, err
	}
}

func queueNames() listing {
	return listed((*client.Client).Queues, func(q api.Queue) cobra.Completion { return q.Name })
}

func scheduleNames() listing {
	return listed((*client.Client).Schedules, func(s api.Schedule) cobra.Completion { return described(s.Name, s.Job.Type) })
}

func jobTypeNames() listing {
	return listed((*client.Client).Types, func(t api.JobTypeSummary) cobra.Completion { return described(t.Type, t.Description) })
}

func webhookNames() listing {
	return listed((*client.Client).Webhooks, func(w api.Webhook) cobra.Completion { return described(w.Name, w.URL) })
}

func workflowIDs() listing {
	return listed(func(c *client.Client, ctx context.Context, page client.PageRequest) (api.Page[api.Workflow], error) {
		return c.Workflows(ctx, api.WorkflowFilter{}, page)
	}, func(w api.Workflow) cobra.Completion { return described(w.ID, w.Name+", "+w.State) })
}

func redriveIDs() listing {
	return listed((*client.Client).Redrives, func(r api.Redrive) cobra.Completion { return described(r.ID, r.Action+", "+r.State) })
}

func workerIDs() listing {
	return listed((*client.Client).Workers, func(w api.Worker) cobra.Completion { return described(w.WorkerID, w.Status) })
}

func tenantIDs() listing {
	return listed((*client.Client).ListTenants, func(t api.Tenant) cobra.Completion { return described(t.ID, t.Name) })
}

func planNames() listing {
	return listed((*client.Client).ListPlans, func(p api.Plan) cobra.Completion { return p.Name })
}

// described is a completion with a description. Both are text of other users: the shell must not read more into it.
func described(name, text string) cobra.Completion {
	return cobra.CompletionWithDesc(cli.Visible(name), cli.Visible(text))
}
