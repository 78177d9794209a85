package claims_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/claims"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/workers"
	"github.com/forgequeue/forgequeue/shared/api"
)

func ofType(jobType string) api.SubmitRequest { return api.SubmitRequest{Type: jobType} }

// typedCall is a claim for some types of the default queue.
func (f *fixture) typedCall(most int, types ...string) claims.Call {
	call := f.ClaimCall()
	call.Types, call.Max = types, most
	return call
}

// Each claim gets the jobs of its types, whatever the number of the others before them.
func TestAClaimTakesItsTypes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	jobs := make([]api.SubmitRequest, 0, 90)
	for i := range 30 {
		jobs = append(jobs, ofType("a"), ofType("b"), ofType(fmt.Sprint("rare-", i)))
	}
	f.Submit(jobs...)
	platform := f.typedCall(100, "rare-3", "rare-4")
	platform.Owner = tenant.Platform
	for _, c := range []struct {
		call claims.Call
		want map[string]int
	}{
		{f.typedCall(5, "a"), map[string]int{"a": 5}},
		{f.typedCall(100, "b", "none"), map[string]int{"b": 30}},
		{f.typedCall(100, "none"), map[string]int{}},
		{platform, map[string]int{"rare-3": 1, "rare-4": 1}},
		{f.typedCall(100, "rare-5", "a"), map[string]int{"a": 25, "rare-5": 1}},
		{f.typedCall(100), nil},
	} {
		got := map[string]int{}
		for _, one := range f.Claim(c.call) {
			got[one.Type]++
		}
		if c.want != nil && fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("a claim of the types %v took %v, want %v", c.call.Types, got, c.want)
		}
		if c.want == nil && len(got) != 27 {
			t.Errorf("a claim of all types took %v, want the 27 that are left", got)
		}
	}
}

// A job wakes a claim that waits for its type, and no other one.
func TestAJobWakesAClaimOfItsType(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Run()
	f.Submit(ofType("a"), ofType("b"))
	f.Claim(f.typedCall(2)) // their lanes are known
	waiting := []claims.Call{f.typedCall(1, "b"), f.typedCall(1, "a")}
	for i := range waiting {
		waiting[i].Wait = 20 * time.Second
	}
	parked := f.Park(t.Context(), waiting...)
	ids := f.Submit(ofType("a"))
	if got := <-parked[1]; got.Err != nil || len(got.Jobs) != 1 || got.Jobs[0].ID != ids[0] {
		t.Fatalf("the claim of the type got %+v (%v)", got.Jobs, got.Err)
	}
	ids = f.Submit(ofType("b"))
	if got := <-parked[0]; got.Err != nil || len(got.Jobs) != 1 || got.Jobs[0].ID != ids[0] {
		t.Fatalf("the claim of the other type got %+v (%v)", got.Jobs, got.Err)
	}
}

// A queue shows the types that no active worker takes, and a submit warns of them.
func TestTypesWithoutAWorker(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Claim(f.typedCall(1, "served"))
	if _, err := f.D.Register(t.Context(), f.Tenant, api.WorkerRequest{WorkerID: "w2", Queues: []string{"default"}, Types: []string{"tagged"}, Tags: []string{"gpu"}}); err != nil {
		t.Fatal(err)
	}
	f.Refresh()
	warned := func(request api.SubmitRequest) []string {
		answer := f.D.Submit(t.Context(), []submits.Call{f.Call(request)})[0]
		f.Accepted(answer)
		return answer.Warnings
	}
	if got := warned(ofType("served")); len(got) != 0 {
		t.Errorf("a type with a worker: %q", got)
	}
	want := "No worker has asked for jobs of the type other in the queue default recently: the job waits for one."
	if got := warned(ofType("other")); len(got) != 1 || got[0] != want {
		t.Errorf("a type without a worker: %q", got)
	}
	for _, jobType := range []string{"tagged", "served"} {
		for range 2 {
			f.Submit(api.SubmitRequest{Type: jobType, Tags: []string{"gpu"}})
		}
	}
	shown, err := f.D.Queue(t.Context(), f.Tenant, "default")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(shown.Unserved); got != "[{other []} {served [gpu]}]" {
		t.Errorf("unserved: %s", got)
	}
	workers, err := f.Store.Workers.List(t.Context(), f.Tenant, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	types := map[string][]string{}
	for _, worker := range workers {
		types[worker.WorkerID] = *worker.Types
	}
	if fmt.Sprint(types) != "map[w1:[served] w2:[tagged]]" {
		t.Errorf("the workers' types: %v", types)
	}
}

// The types of a worker are those that it claims, of all its claims.
func TestTheTypesOfAWorker(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, c := range []struct{ types, want []string }{
		{[]string{"b"}, []string{"b"}}, {[]string{"a"}, []string{"a", "b"}}, {[]string{"b"}, []string{"a", "b"}}, {nil, nil}, {[]string{"c"}, []string{"c"}},
	} {
		worker, _, err := f.Store.Workers.SeenClaiming(t.Context(), f.Tenant, "w", workers.Claiming{Queues: []string{"default"}, Types: c.types})
		if err != nil || !slices.Equal(worker.Types, c.want) || (worker.Types == nil) != (c.want == nil) {
			t.Errorf("after a claim of %v the types are %v (%v), want %v", c.types, worker.Types, err, c.want)
		}
	}
}

// putTypes sets limits by type of the default queue.
func (f *fixture) putTypes(limits api.TypeLimits) {
	f.Helper()
	shown, err := f.D.PutQueue(f.Context(), f.Tenant, "default", api.QueueRequest{Types: limits})
	if err != nil || !bytes.Equal(store.JSON(shown.Settings.Types), store.JSON(limits.Known())) {
		f.Fatal(shown.Settings, err)
	}
}

func countTypes(jobs []claim.Job) string {
	got := map[string]int{}
	for _, one := range jobs {
		got[one.Type]++
	}
	return fmt.Sprint(got)
}

// A cap on the running jobs of a type holds for that type alone, and what ends makes room again.
func TestACapOnAType(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 10 {
		f.Submit(ofType("a"), ofType("b"))
	}
	running := f.Claim(f.typedCall(3, "a")) // before there is a cap: they are counted too
	f.putTypes(api.TypeLimits{"a": {MaxRunning: new(int64(4))}, "free": {MaxRunning: new(int64(0))}})
	if got := countTypes(f.Claim(f.typedCall(100))); got != "map[a:1 b:10]" {
		t.Errorf("of a backlog of both types a claim took %s", got)
	}
	if got := countTypes(f.Claim(f.typedCall(100, "a"))); got != "map[]" {
		t.Errorf("above the cap a claim took %s", got)
	}
	f.noDrift()
	for i, kind := range []string{api.KindComplete, api.KindRelease, api.KindSnooze} {
		ending := jobs.Ending{Lease: running[i].Lease(), Kind: kind, Delay: time.Hour}
		if ended := f.D.End(t.Context(), []jobs.Ending{ending}); ended[0].Err != nil {
			t.Fatal(ended[0].Err)
		}
	}
	if got := countTypes(f.Claim(f.typedCall(100, "a"))); got != "map[a:3]" {
		t.Errorf("after three have ended a claim took %s", got)
	}
	f.noDrift()
	f.putTypes(nil)
	if got := countTypes(f.Claim(f.typedCall(100, "a"))); got != "map[a:4]" {
		t.Errorf("without the cap a claim took %s", got)
	}
}

// A rate on a type holds for that type alone, beside the queue's own.
func TestARateOnAType(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 10 {
		f.Submit(ofType("a"), ofType("b"))
	}
	begun := time.Now()
	f.putTypes(api.TypeLimits{"a": {RatePerSecond: new(0.001)}, "b": {RatePerSecond: new(3.0)}})
	took := map[string]int{}
	for _, one := range f.Claim(f.typedCall(100)) {
		took[one.Type]++
	}
	if most := 3 + int(3*time.Since(begun).Seconds()); took["a"] != 1 || took["b"] < 3 || took["b"] > most {
		t.Errorf("a claim took %v, want one a and 3 to %d b", took, most)
	}
	if got := countTypes(f.Claim(f.typedCall(100, "a"))); got != "map[]" {
		t.Errorf("above the rate a claim took %s", got)
	}
	f.noDrift()
}

// Types of the same priority take turns, in the order in which their jobs became ready; a job of a higher
// priority comes before.
func TestTypesTakeTurns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	order := func(n int) (types []string) {
		for range n {
			for _, one := range f.Claim(f.typedCall(1)) {
				types = append(types, one.Type)
			}
		}
		return types
	}
	for range 3 {
		for _, jobType := range []string{"c", "a", "b", "a"} {
			f.Submit(ofType(jobType))
		}
	}
	f.Submit(ofType("late"), api.SubmitRequest{Type: "high", Priority: new(6)})
	want := []string{"high", "c", "a", "b", "late", "c", "a", "b", "c", "a", "b", "a", "a", "a"}
	if got := order(len(want)); !slices.Equal(got, want) {
		t.Errorf("claims of one took\n%v, want\n%v", got, want)
	}
}

// A lane whose jobs come back as fast as they are moved does not
// keep the jobs of another one waiting, nor the duty from its end.
func TestJobsThatComeBackToTheirLane(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	made := f.Submit(ofType("a"), ofType("b"))
	f.Exec(`UPDATE jobs SET lane_id = 2000000000 - lane_id`) // the lane of b comes first
	f.Exec(`CREATE FUNCTION back() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.lane_id := OLD.lane_id; RETURN NEW; END'`)
	f.Exec(`CREATE TRIGGER back BEFORE UPDATE OF lane_id ON jobs FOR EACH ROW WHEN (OLD.type = 'b') EXECUTE FUNCTION back()`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if moved, err := f.D.MoveOrphans(ctx, time.Second); moved < 2 || err != nil {
		t.Fatalf("moved %d (%v)", moved, err)
	}
	if got := f.Claim(f.typedCall(9)); len(got) != 1 || got[0].ID != made[0] {
		t.Errorf("claimed %+v", got)
	}
}
