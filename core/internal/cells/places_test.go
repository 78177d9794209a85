package cells_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cells"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// What the directory said earlier is ignored, and left is called once for a move, with the cell that was left.
func TestPlacesOfATenantThatMoves(t *testing.T) {
	t.Parallel()
	var left []string
	places := cells.NewPlaces(nil, []string{"home", "other"}, func(owner tenant.ID, cell int) { left = append(left, fmt.Sprint(owner, " ", cell)) })
	owner := uuid.New()
	begun := time.Now()
	places.Doubt(owner) // not known
	want := func(cell int, sure bool) {
		t.Helper()
		if in, known, is := places.Known(owner); !known || in != cell || is != sure {
			t.Errorf("in %d, %v, %v", in, known, is)
		}
	}
	places.Note(owner, 0, begun)
	want(0, true)
	places.Doubt(owner)
	want(0, false)
	places.Note(owner, 0, begun) // it was asked before the doubt
	want(0, false)
	places.Note(owner, 1, time.Now())
	places.Note(owner, 1, time.Now())
	places.Note(owner, 0, begun)
	want(1, true)
	if !slices.Equal(left, []string{fmt.Sprint(owner, " 0")}) {
		t.Errorf("left %v", left)
	}
	places.Note(owner, 0, time.Now().Add(-time.Hour))
	other := uuid.New()
	places.Note(other, 1, time.Now().Add(-time.Hour))
	if _, known, sure := places.Known(other); !known || sure {
		t.Error("an old entry is not looked up again")
	}
}
