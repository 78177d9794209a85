package queue

import (
	"bytes"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/directory"
)

// Ready says that a job can now be claimed: where it stands, or, with a zero ID, that
// it stands at At or behind. A zero At says only that the lane is to be scanned again, and
// with CapacityReleased as the priority that another job may run under the caps of the lane.
type Ready struct {
	Lane     directory.LaneID `json:"l"`
	Priority int16            `json:"p"`
	At       time.Time        `json:"t"`
	ID       uuid.UUID        `json:"i"`
}

// CapacityReleased is no priority.
const CapacityReleased = -1

// Cursor is the place from which the job is found.
func (r Ready) Cursor() Cursor { return Cursor{r.At, r.ID}.Before() }

// Waiting is a list in which jobs wait: where the first stands, and how many there
// are, counted up to what was asked for.
type Waiting struct {
	Ready
	Jobs int64 `json:"n"`
}

// Cursor is a place in a list. It is a hint: jobs may yet appear before it.
type Cursor struct {
	At time.Time
	ID uuid.UUID
}

// Compare orders places in one list.
func (c Cursor) Compare(other Cursor) int {
	if order := c.At.Compare(other.At); order != 0 {
		return order
	}
	return bytes.Compare(c.ID[:], other.ID[:])
}

// Before is the last place before c, so that who looks from there finds what stands at c.
func (c Cursor) Before() Cursor {
	for i := len(c.ID) - 1; i >= 0; i-- {
		c.ID[i]--
		if c.ID[i] != 0xff {
			return c
		}
	}
	return Cursor{At: c.At} // the first id is nobody's
}

// After is the first place after c: c is the last place before it.
func (c Cursor) After() Cursor {
	for i := len(c.ID) - 1; i >= 0; i-- {
		c.ID[i]++
		if c.ID[i] != 0 {
			break
		}
	}
	return c
}
