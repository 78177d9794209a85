package coreclient

import "slices"

// places are where calls of one kind wait in core, shared out by owner: while there
// are enough anybody may have as many as it likes; once all are taken, whoever has at
// least two fewer than the one with the most gets the oldest of his. So one owner has
// all of them, two have a half each, and who comes last is not the one that finds none.
// It has no lock.
type places struct {
	most    int
	taken   int
	byOwner map[string][]*place // the oldest first
}

// place is one call's.
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

// leave gives a place back; one that was lost is another's already.
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

// isLost says whether the place is another's by now.
func (p *place) isLost() bool {
	select {
	case <-p.lost:
		return true
	default:
		return false
	}
}
