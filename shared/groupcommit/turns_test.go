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
