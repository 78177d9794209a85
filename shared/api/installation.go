package api

// Installation is how the stores are, and what goes on in them, for the operator.
type Installation struct {
	At Time `json:"at" swaggertype:"string" format:"date-time"`
	// Checks are those of the gateway that was asked, as in /readyz, and those of core's cells where there are several.
	Checks   map[string]string `json:"checks"`
	Postgres PostgresState     `json:"postgres"`
	// Statements are those of cores that have run for more than a second, the longest first; 20 at most.
	Statements []RunningStatement `json:"statements"`
	// Redrives are those by filter that go on, of all tenants, the oldest first; 50 at most.
	Redrives []TenantRedrive `json:"redrives"`
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
	// LiveRows and DeadRows are PostgreSQL's estimates for the table of live jobs.
	LiveRows int64     `json:"live_rows"`
	DeadRows int64     `json:"dead_rows"`
	Replicas []Replica `json:"replicas"`
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

// HopInstallation is where it is read.
const HopInstallation = "/internal/v1/installation"
