package claim

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// ScanProgress says how far a claim came in a ready list.
type ScanProgress struct {
	Lane     lanes.ID
	Priority int16
	// To is the last position before which every job was taken or locked by another claim; zero
	// where nothing was taken.
	To jobs.Cursor
	// Exhausted says that there are no more jobs for now: the list ended, or a cap or a rate is
	// exhausted.
	Exhausted bool
	// Throttled says that the reason was a cap or a rate.
	Throttled bool
	// Full are the caps that were the reason; none if a rate was.
	Full FullCaps
}

// FullCaps are caps without capacity.
type FullCaps []caps.Cap

// OnlyUser says that the cap of the lane's user is the only one.
func (f FullCaps) OnlyUser() bool { return len(f) == 1 && f[0].Counter == caps.RunningUser }

// Within says whether each of them is among caps, with its limit.
func (f FullCaps) Within(list []caps.Cap) bool {
	return !slices.ContainsFunc(f, func(full caps.Cap) bool { return !slices.Contains(list, full) })
}

// scanned gives, from the picked jobs in their order, how far each list was scanned. A share with
// fewer jobs than its limit has exhausted all its lists; one at its limit, or at the claim's own
// end, those before its last job.
func scanned(shares []Share, picks []picked, most int) []ScanProgress {
	var all []ScanProgress
	full := len(picks) >= most
	rest := picks
	for i := range shares {
		share := &shares[i]
		mine := rest[:leading(rest, share)]
		rest = rest[len(mine):]
		ended := full && len(rest) == 0
		if ended && len(mine) == 0 && share.Most > 0 {
			break // it was not scanned, nor were those after it
		}
		last := len(share.Lists) // also without capacity: Most is 0 then
		if share.Most > 0 && (ended || len(mine) >= share.Most) {
			last = 0
			if len(mine) > 0 {
				last = slices.IndexFunc(share.Lists, mine[len(mine)-1].in)
			}
		}
		all = append(all, share.scanned(mine, last)...)
	}
	return all
}

// leading counts the picks at the head that belong to the share.
func leading(picks []picked, share *Share) int {
	for n := range picks {
		if !slices.ContainsFunc(share.Lists, picks[n].in) {
			return n
		}
	}
	return len(picks)
}

// scanned gives how far a share's lists were scanned; those before last are exhausted.
func (s *Share) scanned(mine []picked, last int) []ScanProgress {
	all := make([]ScanProgress, 0, len(s.Lists))
	for i, list := range s.Lists {
		one := ScanProgress{Lane: list.Lane, Priority: list.Priority, Exhausted: i < last, Throttled: s.Most == 0}
		left := false
		for _, pick := range mine {
			switch {
			case !pick.in(list):
			case pick.throttled:
				one.Exhausted, one.Throttled, left = true, true, true
			case pick.left:
				one.Exhausted, one.Throttled, left = false, false, true
			case !left:
				one.To = jobs.Cursor{At: pick.ReadyAt, ID: pick.ID}
			}
		}
		all = append(all, one)
	}
	return all
}

func (p *picked) in(list ReadyList) bool { return p.LaneID == list.Lane && p.Priority == list.Priority }

// listArgs are lists as arrays.
func listArgs(lists []ReadyList) store.Args {
	lanes, priorities := make([]lanes.ID, len(lists)), make([]int16, len(lists))
	ats, ids := make([]time.Time, len(lists)), make([]uuid.UUID, len(lists))
	for i, list := range lists {
		lanes[i], priorities[i], ats[i], ids[i] = list.Lane, list.Priority, list.After.At, list.After.ID
	}
	return store.Args{"list_lanes": lanes, "list_priorities": priorities, "list_ats": ats, "list_ids": ids}
}
