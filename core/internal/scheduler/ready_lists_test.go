package scheduler

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// A claim locks jobs that it leaves for their size. One at the same time passes them:
// whichever of the two ends first, the cursor is then before what was left.
func TestACursorDoesNotPassWhatAClaimHasLeft(t *testing.T) {
	t.Parallel()
	at := time.Now()
	place := func(n byte) queue.Cursor { return queue.Cursor{At: at, ID: uuid.UUID{15: n}} }
	progress := func(to byte, dry bool) []claim.ScanProgress {
		return []claim.ScanProgress{{Lane: 1, Priority: 5, To: place(to), Exhausted: dry}}
	}
	lane := laneOf(uuid.New(), 1, "a")
	ready := func(l *ReadyLists) []Planned {
		return l.ReadyIn([]tenant.QueueKey{{Tenant: lane.Tenant, Name: lane.Queue}}, anyone("a"), 0, 10)
	}
	for _, cutFirst := range []bool{true, false} {
		l := NewReadyLists(func(id directory.LaneID) (directory.Lane, bool) { return lane, true })
		l.Notify([]queue.Ready{{Lane: 1, Priority: 5, At: at, ID: place(1).ID}})
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
