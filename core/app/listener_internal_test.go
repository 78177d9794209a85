package app

import (
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
)

// Other cores hear of a schedule that was set at one, and work off its ticks if that one ends.
func TestAHintOfSettingsKicksTheDutyOfSchedules(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	for len(f.D.Schedules) > 0 {
		<-f.D.Schedules
	}
	listener(f.D.Engine).Settings()
	if len(f.D.Schedules) == 0 {
		t.Error("the duty sleeps on")
	}
}
