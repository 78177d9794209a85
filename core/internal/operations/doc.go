// Package operations does what tenants and their workers ask of core, an item of a call each: the operations of package hop that
// package httpapi gives a route. It checks what the request says, calls what has the rule, and renders the answer. What the
// operator asks for is in package administration.
//
// A job, from its submit to its end:
//
//	submits      new jobs: what an item must be, and the public answers to it
//	schedules    schedules, their runs, and a job of one now
//	reruns       new jobs like ended ones
//	claims       leases for workers, also those that wait
//	heartbeats   leases that are extended
//	outcomes     attempts that end
//	jobs         one job and lists of them: read, wait, explain, cancel, delete
//	workflows    jobs that belong together, and the parents of a job
//	dead_letters dead letters: lists, groups, redrives and discards by ids
//	redrives     redrives and discards by a filter
//
// What a tenant sets up:
//
//	queues       settings, depths, pauses and probes of queues
//	push         the settings of queues in push mode, and their secrets
//	webhooks     webhooks, their secrets and probes
//	types        job types, their versions, and results that are checked
//	workers      workers: registered, listed, gone
package operations
