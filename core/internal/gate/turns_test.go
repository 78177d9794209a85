package gate_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/gate"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/shared/api"
)

type submitsCall = submits.Call

// A job starts within one round of the keys that wait, whatever the backlog of another key is, and whichever core took it.
func TestKeysTakeTurns(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.batch(f.D, of("large", 1000)...)
	f.batch(f.D, of("large", 1000)...)
	f.end(f.take(300))
	f.batch(f.D, of("small", 1)...)
	if found := f.keys(f.take(2)); !slices.Contains(found, "small") {
		t.Errorf("another key's job did not start in its round: %v", found)
	}
	other := f.NewCore(celltest.OpenURL(t, f.URL))
	f.batch(other, of("second", 1000)...)
	f.Refresh()
	found := f.keys(f.take(100))
	if n := len(slices.DeleteFunc(slices.Clone(found), func(k string) bool { return k != "second" })); n < 48 || n > 52 {
		t.Errorf("%d of 100 jobs are of the second key, submitted to another core", n)
	}
}

// Many keys take turns, in each priority for itself.
func TestManyKeysTakeTurns(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	const keys = 100
	for key := range keys {
		f.batch(f.D, of(fmt.Sprint("k", key), 10)...)
	}
	f.batch(f.D, of("urgent", 5, at(9))...)
	if found := f.keys(f.take(5)); slices.ContainsFunc(found, func(k string) bool { return k != "urgent" }) {
		t.Fatalf("a higher priority comes first: %v", found)
	}
	for range 3 {
		seen := map[string]int{}
		for _, key := range f.keys(f.take(keys)) {
			seen[key]++
		}
		if len(seen) < keys-2 {
			t.Fatalf("%d of %d keys had a job in a round", len(seen), keys)
		}
	}
	f.batch(f.D, of("new", 1)...)
	if found := f.keys(f.take(keys + 1)); !slices.Contains(found, "new") {
		t.Error("a new key's job did not start in the next round")
	}
}

// Keys share by their weights.
func TestKeysShareByWeight(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	weights := map[string]float64{"a": 1, "b": 3, "c": 30}
	for key, weight := range weights {
		f.batch(f.D, of(key, 1000, weighing(weight))...)
	}
	counts := map[string]float64{}
	for _, key := range f.keys(f.take(680)) {
		counts[key]++
	}
	for key, weight := range weights {
		if share := counts[key] / 680 / (weight / 34); share < 0.9 || share > 1.1 {
			t.Errorf("the key %s with weight %v had %v of 680 jobs", key, weight, counts[key])
		}
	}
}

// What becomes ready again joins the end of its key's line: retries of one key do not come before other keys.
func TestRetriesTakeTurns(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.batch(f.D, of("failing", 200)...)
	f.end(f.take(200), func(e *jobs.Ending) { e.Kind, e.Error = api.KindFail, &api.JobError{Type: "E"} })
	f.batch(f.D, of("other", 200)...)
	f.Exec(`UPDATE jobs SET run_at = now() WHERE state = 'scheduled'`)
	if _, err := f.Store.Jobs.Promote(t.Context(), jobs.AllTime, 1000); err != nil {
		t.Fatal(err)
	}
	f.pass()
	f.Refresh()
	found := f.keys(f.take(100))
	if n := len(slices.DeleteFunc(found, func(k string) bool { return k != "other" })); n < 48 || n > 52 {
		t.Errorf("%d of 100 jobs are of the key that does not fail", n)
	}
	if n := f.Count(`SELECT count(*) FROM key_checks`); n != 0 {
		t.Errorf("%d checks are left", n)
	}
}

// With fair false, and without keys, jobs start in the order in which they became ready.
func TestWithoutTurns(t *testing.T) {
	t.Parallel()
	f := newFixture(t, &api.KeySettingsRequest{Fair: new(bool)})
	f.batch(f.D, of("large", 200)...)
	f.batch(f.D, of("small", 1)...)
	if found := f.keys(f.take(200)); slices.Contains(found, "small") {
		t.Error("a key took its turn")
	}
}

// A key that submits its next job when its last one has started gets no more than its share.
func TestAKeyThatComesAgainAndAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	const keys = 10
	for key := range keys {
		f.batch(f.D, of(fmt.Sprint("k", key), 30)...)
	}
	f.batch(f.D, of("again", 1)...)
	again := 0
	const all = 100
	for range all {
		if f.keys(f.take(1))[0] == "again" {
			again++
			f.batch(f.D, of("again", 1)...)
		}
	}
	if again < all/keys/2 || again > all/keys*2 {
		t.Errorf("%d of %d jobs were of one key of %d", again, all, keys+1)
	}
}

// The keys of a queue are listed by name, with what waits for others of its key, what is ready, and what runs.
func TestListOfKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t, &api.KeySettingsRequest{MaxRunning: new(int64(1))})
	f.batch(f.D, of("a", 3)...)
	f.batch(f.D, of("b", 1, at(9))...)
	f.take(1) // of b
	f.batch(f.D, of("c", 1, at(1))...)
	list := func(after string, minWaiting int64, most int) []api.QueueKey {
		t.Helper()
		keys, err := f.Store.Gates.List(t.Context(), gate.Key{Tenant: f.Tenant, Queue: api.DefaultQueue, Key: after}, minWaiting, f.D.Settings(f.Tenant, api.DefaultQueue).Keys.InForce(), most)
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	a, b, c := api.QueueKey{Key: "a", Waiting: 2, Ready: 1}, api.QueueKey{Key: "b", Running: 1}, api.QueueKey{Key: "c", Ready: 1}
	for _, want := range []struct {
		got, want []api.QueueKey
	}{{list("", 0, 10), []api.QueueKey{a, b, c}}, {list("", 0, 2), []api.QueueKey{a, b}}, {list("a", 0, 10), []api.QueueKey{b, c}}, {list("", 1, 10), []api.QueueKey{a}}, {list("", 3, 10), nil}} {
		if !slices.Equal(want.got, want.want) {
			t.Errorf("%+v, want %+v", want.got, want.want)
		}
	}
}
