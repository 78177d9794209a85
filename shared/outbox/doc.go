// Package outbox makes a job part of your own PostgreSQL transaction. Submit inserts a row beside your
// own rows: it commits with them, or not at all. A [Relay] sends what was committed to ForgeQueue, each row as exactly
// one job.
//
//	tx, err := pool.Begin(ctx)
//	…
//	_, err = tx.Exec(ctx, `INSERT INTO orders …`)
//	_, err = outbox.Submit(ctx, tx, Email{To: "ada@example.com"})
//	err = tx.Commit(ctx)
//
// Other languages call the SQL function forgequeue_enqueue. The command `forgequeue relay` is a relay of its own;
// several may run at once. What is promised, and how to run it, is in api-docs/outbox.md.
//
//	your transaction             relay                                ForgeQueue
//	INSERT ──▶ waiting ──claim──▶ sending, in a batch ──POST, key: batch──▶ stored, with its answer
//	              ▲                  │  │  │
//	              └─ refused for now ┘  │  └─ accepted ─▶ deleted, or kept as sent
//	                                    └─ refused for good ─▶ failed
//
// The files: submit.go, schema.go and schema.sql are the producer's side, table.go is for people (what waits, what
// failed, retry, discard), relay.go, listen.go and prune.go run, claim.go, send.go, judge.go and record.go are the steps
// of a batch.
//
// A batch is committed before it is sent, and its id is the Idempotency-Key. It keeps its rows until an answer is
// known: so a relay that is killed at any moment, or an answer that is lost, costs a repeat that stores nothing
// twice.
package outbox
