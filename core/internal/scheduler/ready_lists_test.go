package scheduler

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// A claim locks jobs that it leaves for their size. One at the same time passes them:
// whichever of the two ends first, the cursor is then before what was left.
func TestACursorDoesNotPassWhatAClaimHasLeft(t *testing.T) {
	t.Parallel()
	at := time.Now()
	place := func(n byte) jobs.Cursor { return jobs.Cursor{At: at, ID: uuid.UUID{15: n}} }
	progress := func(to byte, dry bool) []claim.ScanProgress {
		return []claim.ScanProgress{{Lane: 1, Priority: 5, To: place(to), Exhausted: dry}}
	}
	lane := laneOf(uuid.New(), 1, "a")
	ready := func(l *ReadyLists) []Planned {
		return l.ReadyIn([]tenant.QueueKey{{Tenant: lane.Tenant, Name: lane.Queue}}, anyone("a"), 0, 10)
	}
	for _, cutFirst := range []bool{true, false} {
		l := NewReadyLists(func(id lanes.ID) (lanes.Lane, bool) { return lane, true })
		l.Notify([]jobs.Ready{{Lane: 1, Priority: 5, At: at, ID: place(1).ID}})
		planned := ready(l)
		cut := func() {
			l.Scanned(planned, progress(3, false))
			ready := l.Cut(planned, progress(3, false))
			if len(ready) != 1 || ready[0].Cursor() != place(3) {
				t.Errorf("the notification is %+v", ready)
			}
		}
		if cutFirst {
			cut()
		}
		l.Scanned(planned, progress(9, true))
		if !cutFirst {
			cut()
		}
		if got := ready(l); len(got) != 1 || got[0].After != place(3) {
			t.Errorf("cut first %v: the list is %+v, want after %v", cutFirst, got, place(3))
		}
	}
}

// The lists by type are those that a visit of all lists finds, whatever becomes ready or stops to be.
func TestReadyListsByType(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		owner := uuid.New()
		known := make([]lanes.Lane, 40)
		for i := range known {
			key := lanes.NewKey(owner, "a", fmt.Sprint("t", i%13), nil).Of(fmt.Sprint("u", i/13))
			known[i] = lanes.Lane{ID: lanes.ID(i), Key: key}
		}
		l := NewReadyLists(func(id lanes.ID) (lanes.Lane, bool) { return known[id], true })
		ready := map[lanes.ID]bool{}
		key := tenant.QueueKey{Tenant: owner, Name: "a"}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			id := rapid.Int64Range(0, int64(len(known)-1)).Draw(t, "lane")
			if ready[id] {
				planned := l.ReadyIn([]tenant.QueueKey{key}, anyone("a"), 0, 100)
				l.Scanned(planned, []claim.ScanProgress{{Lane: id, Priority: 5, Exhausted: true}})
				delete(ready, id)
			} else {
				l.Notify([]jobs.Ready{{Lane: id, Priority: 5, At: time.Now(), ID: uuid.New()}})
				ready[id] = true
			}
			filter := anyone("a")
			filter.Types = map[string]bool{}
			for _, n := range rapid.SliceOfN(rapid.IntRange(0, 14), 1, 14).Draw(t, "types") {
				filter.Types[fmt.Sprint("t", n)] = true
			}
			found := map[lanes.ID]bool{}
			for _, one := range l.ReadyIn([]tenant.QueueKey{key}, filter, uint64(rapid.Uint32().Draw(t, "offset")), 100) {
				if found[one.Lane] {
					t.Fatalf("lane %d is given twice", one.Lane)
				}
				found[one.Lane] = true
			}
			want := map[lanes.ID]bool{}
			for id := range ready {
				if filter.Types[known[id].Type] {
					want[id] = true
				}
			}
			if !maps.Equal(found, want) || l.HasReady(key, filter) != (len(want) > 0) {
				t.Fatalf("found %v, want %v", found, want)
			}
		}
	})
}
