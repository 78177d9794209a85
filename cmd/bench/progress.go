package bench

import (
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress is a progress bar on a terminal. The zero value shows nothing.
type progress struct {
	to io.Writer // nil: not a terminal

	mu    sync.Mutex
	bar   *progressbar.ProgressBar
	count func() int64

	stop  chan struct{}
	ended sync.WaitGroup
}

const progressEvery = 200 * time.Millisecond

// start begins to draw; end stops it.
func (p *progress) start() (end func()) {
	if p.to == nil {
		return func() {}
	}
	p.stop = make(chan struct{})
	p.ended.Go(func() {
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		for {
			select {
			case <-p.stop:
				return
			case <-ticker.C:
				p.draw()
			}
		}
	})
	return func() {
		close(p.stop)
		p.ended.Wait()
		p.now("", 0, nil)
	}
}

func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar == nil {
		return
	}
	if p.count != nil {
		_ = p.bar.Set64(p.count()) // a failed write to a terminal changes nothing
		return
	}
	_ = p.bar.RenderBlank()
}

// now replaces the bar by one for the next step; an empty text removes it. total is 0 and count nil if they are
// not known.
func (p *progress) now(what string, total int64, count func() int64) {
	if p.to == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	p.bar, p.count = nil, count
	if what == "" {
		return
	}
	if total <= 0 || count == nil {
		total = -1
	}
	p.bar = progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(p.to), progressbar.OptionSetDescription(what), progressbar.OptionSetWidth(20),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("jobs"),
		progressbar.OptionSetElapsedTime(true), progressbar.OptionSetPredictTime(false), progressbar.OptionSpinnerType(14))
}
