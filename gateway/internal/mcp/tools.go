package mcp

// effect is what a tool does.
type effect int

const (
	reads effect = iota
	// adds makes something, or can be taken back.
	adds
	// destroys changes or ends what was there.
	destroys
)

// tool is one request to the API.
type tool struct {
	name, title, description string
	// method and path are the route's, as the API's document has it.
	method, path string
	effect       effect
	// again says that a repeat changes nothing.
	again bool
	// takes are the arguments, of the route's parameters and its body's members; nil takes all.
	takes []string
	// needs are arguments that the tool needs and the route does not.
	needs []string
	// fixed are parameters and members that the agent cannot choose.
	fixed map[string]any
	// confirmed tools take the number that a dry run has given, and act only if as many match now.
	confirmed bool
	// end gives the end of the answer, in text, instead of JSON.
	end bool

	arguments
}

// table is all tools, those that read first.
func table() []*tool { return append(reading(), writing()...) }

func reading() []*tool {
	dryRun := map[string]any{"dry_run": true}
	return []*tool{
		{name: "explain_job", title: "Why a job waits, runs or has failed", description: "Start here for one job. All reasons why it does not start now, with what ends each; the job itself with its last error; its attempts.", method: "GET", path: "/v1/jobs/{id}/explain", takes: []string{"id"}, fixed: map[string]any{"details": "true"}},
		{name: "list_jobs", title: "List jobs", description: "Jobs that match a filter, newest first, without payload and result.", method: "GET", path: "/v1/jobs"},
		{name: "get_job", title: "Read a job", description: "A job with its payload, result and last error.", method: "GET", path: "/v1/jobs/{id}"},
		{name: "list_attempts", title: "List a job's attempts", description: "What happened in each attempt of a job: when, by which worker, with which error.", method: "GET", path: "/v1/jobs/{id}/attempts"},
		{name: "read_output", title: "Read the end of a job's output", description: "The end of what a job has written while it ran, as text.", method: "GET", path: "/v1/jobs/{id}/output", end: true},
		{name: "get_workflow", title: "Read a workflow", description: "A workflow with its jobs, their states and what each comes after.", method: "GET", path: "/v1/workflows/{id}"},
		{name: "list_dead_letter_groups", title: "Group dead letters by cause", description: "Start here for failures. Dead letters by fingerprint of their error and queue, the largest groups first, each with an example.", method: "GET", path: "/v1/dead-letters/groups"},
		{name: "list_dead_letters", title: "List dead letters", description: "Jobs that have failed for good, with reason and error.", method: "GET", path: "/v1/dead-letters"},
		{name: "get_stats", title: "Read counts and times", description: "How many jobs were submitted, completed and failed in each step of time, with waiting and running times.", method: "GET", path: "/v1/stats"},
		{name: "list_queues", title: "List queues", description: "Start here for an overview. Each queue: paused or not, depth by state, workers, what no worker takes, breaker, settings.", method: "GET", path: "/v1/queues"},
		{name: "get_queue", title: "Read a queue", description: "One queue, as in list_queues.", method: "GET", path: "/v1/queues/{name}"},
		{name: "list_queue_keys", title: "List the keys of a queue", description: "The keys of a queue's jobs with the most waiting, and what holds each up.", method: "GET", path: "/v1/queues/{name}/keys"},
		{name: "list_workers", title: "List workers", description: "Workers, whether each is alive, and what it takes.", method: "GET", path: "/v1/workers"},
		{name: "list_budgets", title: "List budgets", description: "Budgets, with how much of each is used.", method: "GET", path: "/v1/budgets"},
		{name: "get_budget", title: "Read a budget", description: "A budget, with how much of it is used, in all or by one subject.", method: "GET", path: "/v1/budgets/{name}"},
		{name: "get_limits", title: "Read the key's limits", description: "The rates and caps of the key's tenant, and how much of each is used.", method: "GET", path: "/v1/limits"},
		{name: "get_bulk", title: "Read a bulk action", description: "How far a bulk action is.", method: "GET", path: "/v1/bulk/{id}"},
		{name: "get_redrive", title: "Read a redrive", description: "How far a redrive is.", method: "GET", path: "/v1/redrives/{id}"},
		{name: "count_bulk", title: "Count what a bulk action would change", description: "A dry run: how many jobs match now. Nothing changes.", method: "POST", path: "/v1/bulk", takes: []string{"action", "filter", "to"}, fixed: dryRun},
		{name: "count_redrive", title: "Count what a redrive would queue again", description: "A dry run: how many dead letters match now. Nothing changes.", method: "POST", path: "/v1/dead-letters/redrive", takes: []string{"filter"}, needs: []string{"filter"}, fixed: dryRun},
	}
}

func writing() []*tool {
	return []*tool{
		{name: "change_job", title: "Change a job that waits", description: "Changes fields of a job that has not started; refused once it has.", method: "PATCH", path: "/v1/jobs/{id}", effect: destroys, again: true},
		{name: "cancel_job", title: "Cancel a job", description: "Cancels a job; one that runs is asked to stop.", method: "POST", path: "/v1/jobs/{id}/cancel", effect: destroys, again: true},
		{name: "rerun_job", title: "Run an ended job again", description: "Submits a new job like an ended one; arguments replace its fields. Give an idempotency_key, so that a repeat submits none twice.", method: "POST", path: "/v1/jobs/{id}/rerun", effect: adds, takes: []string{"id", "idempotency_key", "payload", "queue", "priority", "delay_ms", "run_at", "max_attempts", "tags", "metadata"}},
		{name: "redrive_job", title: "Queue a dead letter again", description: "Queues one dead letter again, with its attempts at 0.", method: "POST", path: "/v1/jobs/{id}/redrive", effect: adds},
		{name: "redrive_dead_letters", title: "Queue dead letters again", description: "Queues all dead letters again that match a filter, in the background; get_redrive shows the progress. First ask count_redrive, and confirm its number in matched.", method: "POST", path: "/v1/dead-letters/redrive", effect: adds, takes: []string{"filter", "rate_per_second", "canary"}, needs: []string{"filter"}, confirmed: true},
		{name: "cancel_redrive", title: "Stop a redrive", description: "Stops a redrive where it is; what was queued again stays so.", method: "POST", path: "/v1/redrives/{id}/cancel", effect: adds, again: true},
		{name: "bulk", title: "Change many jobs", description: "Changes, cancels, reruns or deletes all jobs that match a filter, in the background; get_bulk shows the progress. First ask count_bulk, and confirm its number in matched.", method: "POST", path: "/v1/bulk", effect: destroys, takes: []string{"action", "filter", "to", "rate_per_second"}, confirmed: true},
		{name: "cancel_bulk", title: "Stop a bulk action", description: "Stops a bulk action where it is; what was changed stays changed.", method: "POST", path: "/v1/bulk/{id}/cancel", effect: adds, again: true},
		{name: "pause_queue", title: "Pause a queue", description: "No job of the queue starts until it is resumed; those that run go on.", method: "POST", path: "/v1/queues/{name}/pause", effect: adds, again: true},
		{name: "resume_queue", title: "Resume a queue", description: "Jobs of a paused queue start again.", method: "POST", path: "/v1/queues/{name}/resume", effect: adds, again: true},
	}
}
