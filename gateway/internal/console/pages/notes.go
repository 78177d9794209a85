package pages

// notes are what a page says of the action that led to it, by the code in its URL: a code that is not here says nothing.
var notes = map[string]string{
	"signed-out":            "You are signed out in this browser.",
	"signed-out-everywhere": "You are signed out: here at once, in every other browser within a second.",
	"sessions-ended":        "Your key has signed out everywhere. Sign in again.",
	"key-ended":             "Your key is no longer valid: it was revoked, or has expired. Sign in with another one.",
	"queue-paused":          "The queue is paused. Running jobs continue; no other one starts.",
	"queue-resumed":         "The queue is resumed.",
	"queue-saved":           "The settings are saved.",
	"queue-probed":          "The next jobs are sent to the destination. If it accepts them, the breaker closes.",
	"webhook-probed":        "The next deliveries are sent. If they are accepted, the breaker closes.",
	"queue-deleted":         "The queue is deleted.",
	"job-cancelled":         "The job is cancelled.",
	"job-cancelling":        "The job runs. Its worker is asked to stop; you see here when it has.",
	"job-changed":           "The job is changed.",
	"job-unchanged":         "Nothing was changed: the form had what the job has.",
	"job-not-changeable":    "Only a job that waits can be changed. This one has started, has ended, or is a delivery of a webhook.",
	"job-signalled":         "The signal is sent.",
	"job-signalled-before":  "The job has had a signal of this name before: nothing has changed.",
	"job-redriven":          "The job is queued again, with a new set of attempts.",
	"job-rerun":             "This is a new job: a rerun of the one that has ended.",
	"job-forgotten":         "The job is deleted.",
	"job-discarded":         "The dead letter is discarded.",
	"redrive-started":       "Started. It continues if you leave this page.",
	"redrive-cancelled":     "It is stopped. What was done stays done.",
	"workflow-cancelled":    "The workflow is cancelled: its waiting jobs at once, its running ones when their workers stop.",
	"workflow-redriven":     "The workflow's dead letters are queued again.",
	"schedule-paused":       "The schedule is paused: its ticks are skipped.",
	"schedule-resumed":      "The schedule is resumed.",
	"schedule-deleted":      "The schedule is deleted. Its existing jobs stay.",
	"webhook-tested":        "A test delivery is on its way. Its answer shows here.",
	"budget-created":        "The budget is created. Jobs that name it in their costs wait for it from now on.",
	"budget-saved":          "The budget is saved. If it was closed, it is open now.",
	"budget-deleted":        "The budget is deleted. Jobs that waited for it wait for it no more.",
	"tenant-made":           "Tenant created. Next, create a key for it.",
	"tenant-saved":          "The tenant is saved.",
	"key-revoked":           "The key is revoked, within a second everywhere.",
	"plan-saved":            "The plan is saved. It applies in each gateway within 30 seconds.",
}

// Note is the sentence of a code; empty for an unknown one.
func Note(code string) string { return notes[code] }
