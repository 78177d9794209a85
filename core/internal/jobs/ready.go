package jobs

import (
	"bytes"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/lanes"
)

// Ready says that a job can be claimed: at (At, ID), or, with a zero ID, at At or later. A zero At
// says only that the lane is to be scanned again.
type Ready struct {
	Lane     lanes.ID  `json:"l"`
	Priority int16     `json:"p"`
	At       time.Time `json:"t"`
	ID       uuid.UUID `json:"i"`
	// CapacityReleased says, without a job, that another one may run under the caps of the lane.
	CapacityReleased bool `db:"-" json:"c,omitempty"`
}

// Cursor is the position from which a scan finds the job.
func (r Ready) Cursor() Cursor { return Cursor{r.At, r.ID}.Before() }

// Waiting is a list with ready jobs: the position of the first, and how many there are, up to the
// limit of the probe.
type Waiting struct {
	Ready
	Jobs int64 `json:"n"`
}

// Cursor is a position in a list. It is a hint: jobs may still appear before it.
type Cursor struct {
	At time.Time
	ID uuid.UUID
}

// Compare orders positions in one list.
func (c Cursor) Compare(other Cursor) int {
	if order := c.At.Compare(other.At); order != 0 {
		return order
	}
	return bytes.Compare(c.ID[:], other.ID[:])
}

// Before is the last position before c: a scan from there finds the job at c.
func (c Cursor) Before() Cursor {
	for i := len(c.ID) - 1; i >= 0; i-- {
		c.ID[i]--
		if c.ID[i] != 0xff {
			return c
		}
	}
	return Cursor{At: c.At} // there is no smaller id
}

// After is the first position after c: c is the last position before it.
func (c Cursor) After() Cursor {
	for i := len(c.ID) - 1; i >= 0; i-- {
		c.ID[i]++
		if c.ID[i] != 0 {
			break
		}
	}
	return c
}
