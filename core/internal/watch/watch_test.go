package watch

import (
	"testing"
	"time"

	"github.com/google/uuid"
)

// However many jobs are watched, one poll asks for so many, and the next one for others;
// none for those that were read just now.
func TestWatchedJobsArePolledForInRotation(t *testing.T) {
	t.Parallel()
	var w Watches
	const jobs, most = 2500, 1000
	asked := map[uuid.UUID]int{}
	for range jobs {
		id := uuid.New()
		w.add(id, false)
		asked[id] = 0
	}
	if ids := w.Next(most, time.Hour); len(ids) != 0 {
		t.Errorf("%d jobs are polled for that were read just now", len(ids))
	}
	for range 5 {
		ids := w.Next(most, 0)
		if len(ids) != most {
			t.Fatalf("a poll for %d jobs, want %d", len(ids), most)
		}
		for _, id := range ids {
			asked[id]++
		}
	}
	for id, times := range asked {
		if times != 2 {
			t.Fatalf("job %v was polled for %d times of 5, want 2", id, times)
		}
	}
}
