package faults_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/e2e/invariants"
	"github.com/forgequeue/forgequeue/e2e/stack"
)

// The control: a real run that violates nothing is spoilt, in its history and in
// its database, and the checker that passed it must notice each time.
func TestControlRunsFail(t *testing.T) {
	furtherFault(t, "TestCoreKilledUnderLoad")
	t.Parallel()
	c := stack.NewCluster(t, stack.ClusterOptions{})
	l := newLoad(t, c, 2*time.Second)
	stopWork := l.work(2, 0)
	stopSubmits := l.produce(4, 60, 0)
	pace(t.Context(), time.Second)
	stopSubmits()
	l.drain(60 * time.Second)
	stopWork()
	h, db := l.check()
	if t.Failed() {
		return
	}
	victim := ""
	for _, r := range db.Rows {
		if r.State == "completed" {
			victim = r.ID
		}
	}
	noticed := func(name string, h invariants.History, invariant string) {
		t.Helper()
		for _, found := range invariants.Check(h, l.database()) {
			if strings.HasPrefix(found, invariant+":") && strings.Contains(found, victim) {
				return
			}
		}
		t.Errorf("%s: %s did not notice", name, invariant)
	}
	noticed("a completion nobody sent", without(h, victim, invariants.OpOutcome), "I6")
	noticed("a job nobody submitted", without(h, victim, invariants.OpSubmit), "I1")
	l.spoil(`UPDATE finished_jobs SET epoch = epoch + 1 WHERE id = $1`, victim)
	noticed("another epoch", h, "I6")
	l.spoil(`UPDATE finished_jobs SET epoch = epoch - 1, attempt = attempt + 1, max_attempts = 100 WHERE id = $1`, victim)
	noticed("an attempt too many", h, "I5")
	l.spoil(`UPDATE finished_jobs SET attempt = attempt - 1, payload = '{}' WHERE id = $1`, victim)
	noticed("another payload", h, "I1")
	l.spoil(`DELETE FROM finished_jobs WHERE id = $1`, victim)
	noticed("a lost job", h, "I1")
}

func without(h invariants.History, job, op string) invariants.History {
	return invariants.History{Events: slices.DeleteFunc(slices.Clone(h.Events), func(e invariants.Event) bool {
		return e.Job == job && e.Op == op
	})}
}

// spoil changes one row behind the service's back.
func (l *load) spoil(sql, id string) {
	l.t.Helper()
	conn, err := pgx.Connect(l.t.Context(), l.cluster.DatabaseURL)
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = conn.Close(l.t.Context()) }()
	if tag, err := conn.Exec(l.t.Context(), sql, id); err != nil || tag.RowsAffected() != 1 {
		l.t.Fatalf("%s: %v, %v", sql, tag, err)
	}
}
