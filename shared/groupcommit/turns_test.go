package groupcommit_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/forgequeue/forgequeue/shared/groupcommit"
)

// One owner with far more than there is room for: another's request is in the next
// flush, and never finds the line full.
func TestOwnersTakeTurns(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}, 100), make(chan struct{})
	var mu sync.Mutex
	var flushes [][]string
	group := groupcommit.New(groupcommit.Options[string, string]{
		Most: 10, Waiting: 50, Owner: func(r string) any { return r },
		Flush: func(_ context.Context, requests []string) []groupcommit.Result[string] {
			mu.Lock()
			flushes = append(flushes, slices.Clone(requests))
			mu.Unlock()
			entered <- struct{}{}
			<-release
			results := make([]groupcommit.Result[string], len(requests))
			for i := range results {
				results[i].Value = requests[i]
			}
			return results
		},
	})
	var callers sync.WaitGroup
	callers.Go(func() { _, _ = group.Do(t.Context(), "many") })
	<-entered // a flush is under way, and what comes now waits
	refused := make(chan error, 60)
	for range 60 {
		callers.Go(func() {
			if _, err := group.Do(t.Context(), "many"); err != nil {
				refused <- err
			}
		})
	}
	for range 10 { // 50 are in line
		if err := <-refused; !errors.Is(err, groupcommit.ErrFull) {
			t.Fatal(err)
		}
	}
	callers.Go(func() {
		if got, err := group.Do(t.Context(), "few"); got != "few" || err != nil {
			t.Errorf("the other owner: %q, %v", got, err)
		}
	})
	if err := <-refused; !errors.Is(err, groupcommit.ErrFull) { // whose place it took
		t.Fatal(err)
	}
	close(release)
	callers.Wait()
	if len(flushes) < 2 || !slices.Contains(flushes[1], "few") {
		t.Errorf("flushes: %v", flushes)
	}
}

// What is given up, from either end of the line, is not charged: those that stay keep
// their order, and the owner is next to another afterwards.
func TestWhatIsGivenUpIsNotCharged(t *testing.T) {
	t.Parallel()
	type request struct {
		name string
		turn groupcommit.Turn[string]
	}
	var turns groupcommit.Turns[string]
	var line []*request
	enter := func(owner, name string, weight int) {
		turns.Next(owner, weight) // refused
		r := &request{name, turns.LineUp(owner, weight)}
		at := slices.IndexFunc(line, func(other *request) bool { return r.turn.Before(other.turn) })
		if at < 0 {
			at = len(line)
		}
		line = slices.Insert(line, at, r)
	}
	leave := func(name string) {
		at := slices.IndexFunc(line, func(r *request) bool { return r.name == name })
		line = groupcommit.Leave(&turns, line, at, func(r *request) *groupcommit.Turn[string] { return &r.turn })
	}
	want := func(names ...string) {
		t.Helper()
		var got []string
		for _, r := range line {
			got = append(got, r.name)
		}
		if !slices.Equal(got, names) {
			t.Fatalf("in line %v, want %v", got, names)
		}
	}
	enter("a", "a1", 5)
	enter("a", "a2", 1)
	enter("a", "a3", 2)
	enter("b", "b1", 1)
	enter("b", "b2", 1)
	enter("b", "b3", 1)
	want("a1", "b1", "b2", "b3", "a2", "a3")
	leave("a1") // a2 begins at 0 now, a3 at 1
	want("b1", "a2", "b2", "a3", "b3")
	leave("a3")
	enter("a", "a4", 1)
	want("b1", "a2", "b2", "a4", "b3")
	for range 10_000 {
		turns.Next("a", 1) // refused
		enter("a", "gone", 1)
		leave("gone")
	}
	for range 100 {
		enter("a", "gone", 1)
	}
	for range 100 {
		leave("gone") // the first first
	}
	enter("a", "a5", 1)
	want("b1", "a2", "b2", "a4", "b3", "a5")
}
