package cellclient

import "slices"

// places bound the calls of one kind that wait in core, divided among owners: while
// some are free an owner may take any number; once all are taken, an owner with at
// least two fewer than the one with the most gets that one's oldest. So one owner may
// have all of them, two have a half each, and the last to come still gets one.
// It has no lock.
type places struct {
	most    int
	taken   int
	byOwner map[string][]*place // the oldest first
}

// place is the place of one call.
type place struct {
	whose string
	// lost is closed when another owner gets it.
	lost chan struct{}
}

// take gives a place, nil where there is none for this owner.
func (p *places) take(whose string) *place {
	if p.taken >= p.most {
		largest, has := "", 0
		for other, held := range p.byOwner {
			if len(held) > has {
				largest, has = other, len(held)
			}
		}
		if has < len(p.byOwner[whose])+2 {
			return nil
		}
		oldest := p.byOwner[largest][0]
		p.leave(oldest)
		close(oldest.lost)
	}
	if p.byOwner == nil {
		p.byOwner = map[string][]*place{}
	}
	own := &place{whose: whose, lost: make(chan struct{})}
	p.byOwner[whose] = append(p.byOwner[whose], own)
	p.taken++
	return own
}

// leave gives a place back; a lost one belongs to another owner already.
func (p *places) leave(left *place) {
	held := p.byOwner[left.whose]
	at := slices.Index(held, left)
	if at < 0 {
		return
	}
	p.taken--
	if len(held) == 1 {
		delete(p.byOwner, left.whose)
		return
	}
	p.byOwner[left.whose] = slices.Delete(held, at, at+1)
}

// isLost returns whether the place belongs to another owner now.
func (p *place) isLost() bool {
	select {
	case <-p.lost:
		return true
	default:
		return false
	}
}
