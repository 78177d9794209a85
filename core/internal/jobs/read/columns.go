package read

// The columns of a job: each is named here once, and other lists are made of these. The statements that insert jobs, move
// them between the three tables, or read them take their lists from here.
const (
	// IdentityColumns say whose a job is, and in which lane.
	IdentityColumns = `id, tenant_id, lane_id, queue, type, user_id`
	// OptionColumns are what a submit decides, besides its tags, metadata, payload and times.
	OptionColumns = `max_attempts, retry_base_ms, retry_cap_ms, retry_jitter, retry_curve, timeout_ms, dedupe_key, correlation_id, traceparent`
	// KeyColumns are whose turn it takes.
	KeyColumns = `key, key_weight, costs`
	// LinkColumns are its links with other jobs.
	LinkColumns = `has_dependents, linked, rerun_of`
	// AnswerColumns are how the last attempt ended, and what a repeat of its outcome is answered.
	AnswerColumns = `last_error, outcome_lease_id, outcome_hash, outcome_answer`

	narrowColumns = IdentityColumns + `, priority, tags, metadata, ` + OptionColumns + `, ` + KeyColumns + `, ` + LinkColumns + `,
  epoch, redrives, created_at, run_at, deadline, started_at, worker_id, cancel_requested, progress`

	// StableColumns do not change when a job moves to another table.
	StableColumns = narrowColumns + `, checkpoint, payload`
	// JobColumns are all columns of a job in any table.
	JobColumns = StableColumns + `, attempt, ` + AnswerColumns
	// EventColumns are those of a job that ends which an event shows.
	EventColumns = narrowColumns + `, checkpoint, attempt, last_error`

	// listColumns are JobColumns without payloads and checkpoints, which may be 256 KiB and 64 KiB each.
	listColumns = narrowColumns + `, NULL::json AS checkpoint, NULL::json AS payload, attempt, ` + AnswerColumns
)

// The columns of a Row, by table: they give the rows of the three tables one shape. Brief ones are without payload,
// checkpoint and result.
const (
	liveColumns     = JobColumns + liveEnd
	finishedColumns = JobColumns + `, state, NULL::uuid, NULL::timestamptz, result, NULL::text, finished_at, false`
	deadColumns     = JobColumns + deadEnd

	BriefColumns         = listColumns + liveEnd
	briefFinishedColumns = listColumns + `, state, NULL::uuid, NULL::timestamptz, NULL::json, NULL::text, finished_at, false`
	BriefDeadColumns     = listColumns + deadEnd

	liveEnd = `, state, lease_id, lease_expires_at, NULL::json AS result, NULL::text AS reason, NULL::timestamptz AS finished_at, state = 'queued' AND ready_at IS NULL AS at_gate`
	deadEnd = `, 'dead_letter'::text AS state, NULL::uuid AS lease_id, NULL::timestamptz AS lease_expires_at, NULL::json AS result, reason, died_at AS finished_at, false AS at_gate`
)
