package publish

import (
	"testing"
	"time"
)

// While the hints of other cores arrive, settings are read each 5 s; when they are lost, at the next look.
func TestSettingsAreReadSeldomWhileHintsArrive(t *testing.T) {
	t.Parallel()
	arrive := true
	w := New(Options{Hints: Hints{Arrive: func() bool { return arrive }}}).Waker
	if w.refreshDue(4 * time.Second) {
		t.Error("after 4 s they are read again")
	}
	if !w.refreshDue(refreshSeldom) {
		t.Error("after 5 s they are not read")
	}
	arrive = false
	if !w.refreshDue(refreshEvery) || !New(Options{}).refreshDue(refreshEvery) {
		t.Error("without hints they are not read after 2 s")
	}
}
