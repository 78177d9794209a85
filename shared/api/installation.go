package api

// Installation is how the stores are, and what runs in them, for the operator.
type Installation struct {
	At Time `json:"at" swaggertype:"string" format:"date-time"`
	// Checks are those of the gateway that was asked, as in /readyz, and those of core's cells where there are several.
	Checks map[string]string `json:"checks"`
	// Processes are cores and gateways, those that have reported within the last hour and have not been stopped; cores
	// first, then by address.
	Processes []Process     `json:"processes"`
	Postgres  PostgresState `json:"postgres"`
	// Cells are those beside the home cell that answer, where there are several.
	Cells []CellState `json:"cells"`
	// Redis is that of the gateway that was asked; null where there is none, or where it does not tell.
	Redis *RedisState `json:"redis"`
	// Statements are those of cores that have run for more than a second, the longest first; 20 at most.
	Statements []RunningStatement `json:"statements"`
	// Redrives are those by filter that go on, of all tenants, the oldest first; 50 at most.
	Redrives []TenantRedrive `json:"redrives"`
}

// Kinds of processes.
const (
	ProcessCore    = "core"
	ProcessGateway = "gateway"
)

// States of processes.
const (
	ProcessRunning = "running"
	ProcessLost    = "lost"
)

// Process is a core or a gateway, as it has reported itself.
type Process struct {
	ID   string `json:"id"`
	Kind string `json:"kind" enums:"core,gateway"`
	// Address is the name of its host, and the port on which it listens.
	Address string `json:"address"`
	Version string `json:"version"`
	// State is lost for one that was not stopped and has not reported for a minute: it was killed, or does not reach core.
	State     string `json:"state" enums:"running,lost"`
	StartedAt Time   `json:"started_at" swaggertype:"string" format:"date-time"`
	// SeenAt is when it reported last; each does every 20 seconds.
	SeenAt Time `json:"seen_at" swaggertype:"string" format:"date-time"`
}

// CellState is how a cell beside the home cell is.
type CellState struct {
	Name     string        `json:"name"`
	Postgres PostgresState `json:"postgres"`
}

// RedisState is how the Redis of gateways is, in a cluster one of its nodes. It is read from INFO.
type RedisState struct {
	Version string `json:"version"`
	// Mode is standalone, sentinel or cluster.
	Mode string `json:"mode"`
	// UsedBytes is its memory, MaxBytes the most that it may take, 0 for no limit.
	UsedBytes int64 `json:"used_bytes"`
	MaxBytes  int64 `json:"max_bytes"`
	// Policy is maxmemory_policy, as in noeviction.
	Policy string `json:"policy"`
	// EvictedKeys counts those that it has dropped for want of memory, since it was started.
	EvictedKeys int64 `json:"evicted_keys"`
	Clients     int64 `json:"clients"`
}

// Verification is what was found when counts were compared with their jobs.
type Verification struct {
	// At is when it ended.
	At Time `json:"at" swaggertype:"string" format:"date-time"`
	// Violations counts what was wrong; 0 is no drift.
	Violations int64 `json:"violations"`
}

// PostgresState is how the PostgreSQL of core is. It is read from PostgreSQL's statistics views; what the role of core
// may not see there is zero, null or absent.
type PostgresState struct {
	Version   string `json:"version"`
	StartedAt Time   `json:"started_at" swaggertype:"string" format:"date-time"`
	// SizeBytes is the size of core's database.
	SizeBytes int64 `json:"size_bytes"`
	// Connections are sessions of clients; CoreConnections those of cores.
	Connections     int64 `json:"connections"`
	CoreConnections int64 `json:"core_connections"`
	MaxConnections  int64 `json:"max_connections"`
	// OldestTransactionMS is for how long the oldest snapshot is held: dead rows that are younger cannot be removed.
	OldestTransactionMS *int64 `json:"oldest_transaction_ms"`
	// OldestTransactionOf is the application that holds it.
	OldestTransactionOf *string `json:"oldest_transaction_of"`
	// LedgerHeld is what keeps a day of the ledger, whose counts are bills, from being closed; null for nothing.
	LedgerHeld *LedgerHold `json:"ledger_held"`
	// LiveRows and DeadRows are PostgreSQL's estimates for the table of live jobs.
	LiveRows int64     `json:"live_rows"`
	DeadRows int64     `json:"dead_rows"`
	Replicas []Replica `json:"replicas"`
	// Verified is the last run of `core verify`; null where there was none.
	Verified *Verification `json:"verified"`
	// Counted is the last round of a core through the counts of caps, which begins every five minutes; counts with too many
	// jobs are left to `core verify`. It is null where none has ended yet.
	Counted *Verification `json:"counted"`
}

// LedgerHold is the oldest transaction that began before the end of a day of the ledger: the day is closed once it ends.
type LedgerHold struct {
	// Day is the day that has ended.
	Day string `json:"day" format:"date"`
	// PID is the server's process of the session, which pg_terminate_backend ends. Application and Role are the session's.
	PID         int64  `json:"pid"`
	Application string `json:"application"`
	Role        string `json:"role"`
	Since       Time   `json:"since" swaggertype:"string" format:"date-time"`
}

// Replica is a standby that streams from the primary.
type Replica struct {
	Name  string `json:"name"`
	State string `json:"state"`
	// Sync is async, potential, sync or quorum.
	Sync string `json:"sync"`
	// BehindBytes is the WAL that it has not replayed; null where that is not known.
	BehindBytes *int64 `json:"behind_bytes"`
}

// RunningStatement is a statement that runs.
type RunningStatement struct {
	// Text is its beginning, without values: core sends them apart.
	Text      string `json:"text"`
	RunningMS int64  `json:"running_ms"`
	// Wait is what it waits for, as in pg_stat_activity, for example Lock: transactionid; null for nothing.
	Wait *string `json:"wait"`
}

// TenantRedrive is a redrive with its tenant.
type TenantRedrive struct {
	Tenant string `json:"tenant"`
	Redrive
}
