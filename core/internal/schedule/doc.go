// Package schedule makes one job a tick, and a tick is never lost and never made twice. When its ticks are is in package timing.
//
//	plan.go              which of the due ones are made: pure too
//	put.go  get.go  change.go  the calls of a schedule's owner
//	due.go               which schedules are due, tenants in turn
//	run.go               due ones in steps: their pace, and what follows a step that fails
//	step.go              one transaction: lock, runs, jobs, next_at
//	ticks.go  moved.go   which ticks get a job in it, and where the schedule is afterwards
//	trigger.go           a job between ticks
//
// The step takes what a submit needs (lanes, caps) from before its transaction, and everything that
// decides from the rows that it has locked. A core that dies anywhere leaves all of it or nothing:
//
//	BEGIN, lock the due rows, lock the tenants' submits ─▶ a run for each tick ─▶ jobs ─▶ next_at, COMMIT
//
// The key of schedule_runs is the second defence: after a restore, or a clock that was set back, a
// tick that has its run is not made again.
package schedule
