package dispatch

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/queue"
)

// A claim locks jobs that it leaves for their size. One at the same time passes them:
// whichever of the two ends first, the cursor is then before what was left.
func TestACursorDoesNotPassWhatAClaimHasLeft(t *testing.T) {
	t.Parallel()
	at := time.Now()
	place := func(n byte) queue.Cursor { return queue.Cursor{At: at, ID: uuid.UUID{15: n}} }
	walked := func(to byte, dry bool) []queue.Walked {
		return []queue.Walked{{Lane: 1, Priority: 5, To: place(to), Dry: dry}}
	}
	for _, cutFirst := range []bool{true, false} {
		l := newLines()
		l.hear([]queue.Ready{{Lane: 1, Priority: 5, At: at, ID: place(1).ID}})
		planned := map[lineKey]line{{1, 5}: l.ready(1, nil)[0]}
		cut := func() {
			l.walked(planned, walked(3, false))
			news := l.cut(planned, walked(3, false))
			if len(news) != 1 || news[0].Cursor() != place(3) {
				t.Errorf("the news is %+v", news)
			}
		}
		if cutFirst {
			cut()
		}
		l.walked(planned, walked(9, true))
		if !cutFirst {
			cut()
		}
		if got := l.ready(1, nil); len(got) != 1 || got[0].After != place(3) {
			t.Errorf("cut first %v: jobs are believed %+v, want behind %v", cutFirst, got, place(3))
		}
	}
}
