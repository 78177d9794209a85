package alerts

import (
	"slices"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// world is one webhook and a clock.
type world struct {
	hook   hook
	stored []*row
	told   []string
}

func (w *world) look(after time.Duration, seen ...Sighting) {
	w.hook.Now = w.hook.Now.Add(after)
	made := compare([]hook{w.hook}, w.stored, seen)
	w.told = append(w.told, made.kinds...)
	w.stored = slices.DeleteFunc(w.stored, func(r *row) bool { return slices.Contains(made.dropped, r) })
	for _, one := range made.kept {
		if !slices.Contains(w.stored, one) {
			w.stored = append(w.stored, one)
		}
	}
}

func newWorld(kinds ...string) *world {
	return &world{hook: hook{Name: "h", Events: kinds, Now: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC), Thresholds: &api.Thresholds{}}}
}

func full(name string) Sighting {
	return Sighting{State: api.EventCapFull, Of: api.AlertOfQueue, Name: name}
}

const look = 10 * time.Second

func TestAStateIsToldOnceAtItsBeginAndOnceAtItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(api.EventCapFull)
	for range 30 { // its threshold is a minute
		w.look(look, full("q"))
	}
	if !slices.Equal(w.told, []string{api.EventCapFull}) {
		t.Fatal("begin: ", w.told)
	}
	for range 30 {
		w.look(look)
	}
	if !slices.Equal(w.told, []string{api.EventCapFull, api.EventCapFull}) || len(w.stored) != 0 {
		t.Error("end: ", w.told, w.stored)
	}
}

func TestAStateThatFlapsIsNotToldAgain(t *testing.T) {
	t.Parallel()
	for seen := 1; seen < 5; seen++ {
		for unseen := 1; unseen < 6; unseen++ { // less than a minute
			w := newWorld(api.EventCapFull)
			for range 20 {
				for range seen {
					w.look(look, full("q"))
				}
				for range unseen {
					w.look(look)
				}
			}
			if len(w.told) > 1 {
				t.Errorf("seen %d times, then not %d times: %v", seen, unseen, w.told)
			}
			if seen < 5 && unseen > 3 && len(w.told) != 0 {
				t.Errorf("seen %d times, then not %d times, is no minute: %v", seen, unseen, w.told)
			}
		}
	}
}

func TestAnotherCoreThatDoesNotKnowDoesNotEndAState(t *testing.T) {
	t.Parallel()
	w := newWorld(api.EventBreakerOpened, api.EventBreakerClosed)
	opened := Sighting{State: api.EventBreakerOpened, Of: api.AlertOfQueue, Name: "q"}
	for range 50 {
		w.look(look/2, opened)
		w.look(look / 2)
	}
	if !slices.Equal(w.told, []string{api.EventBreakerOpened}) {
		t.Error(w.told)
	}
}

func TestEachWebhookIsToldOfWhatItAsksFor(t *testing.T) {
	t.Parallel()
	held := func(d time.Duration) Sighting {
		return Sighting{State: api.EventQueueStalled, Of: api.AlertOfQueue, Name: "q", Held: &d}
	}
	failing := Sighting{State: api.EventWebhookFailing, Of: api.AlertOfWebhook, Name: "h"}
	for name, c := range map[string]struct {
		kinds      []string
		queue      *string
		thresholds *api.Thresholds
		seen       Sighting
		want       int
	}{
		"as long as the threshold":              {kinds: []string{api.EventQueueStalled}, seen: held(5 * time.Minute), want: 1},
		"less":                                  {kinds: []string{api.EventQueueStalled}, seen: held(5*time.Minute - 1)},
		"its own threshold":                     {kinds: []string{api.EventQueueStalled}, thresholds: &api.Thresholds{QueueStalledMS: new(int64(1000))}, seen: held(time.Second), want: 1},
		"of its queue":                          {kinds: []string{api.EventQueueStalled}, queue: new("q"), seen: held(time.Hour), want: 1},
		"of another queue":                      {kinds: []string{api.EventQueueStalled}, queue: new("p"), seen: held(time.Hour)},
		"of the tenant, with a filter by queue": {kinds: []string{api.EventCapFull}, queue: new("p"), thresholds: &api.Thresholds{CapFullMS: new(int64(0))}, seen: Sighting{State: api.EventCapFull, Of: api.AlertOfTenant}, want: 1},
		"another state":                         {kinds: []string{api.EventCapFull}, seen: held(time.Hour)},
		"only the end":                          {kinds: []string{api.EventQueueRecovered}, seen: held(time.Hour)},
		"itself":                                {kinds: []string{api.EventWebhookFailing}, thresholds: &api.Thresholds{WebhookFailingMS: new(int64(0))}, seen: failing},
	} {
		w := newWorld(c.kinds...)
		w.hook.Queue, w.hook.Thresholds = c.queue, c.thresholds
		w.look(0, c.seen)
		if len(w.told) != c.want {
			t.Errorf("%s: %v", name, w.told)
		}
	}
	w := newWorld(api.EventQueueRecovered)
	w.look(0, held(time.Hour))
	for range 8 {
		w.look(look)
	}
	if !slices.Equal(w.told, []string{api.EventQueueRecovered}) {
		t.Error("only the end: ", w.told)
	}
}

func TestAStateOfNoInterestAnyMoreGoesWithoutAnEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(api.EventCapFull)
	for range 8 {
		w.look(look, full("q"))
	}
	w.hook.Events = []string{api.EventQueueStalled}
	w.look(look, full("q"))
	if len(w.told) != 1 || len(w.stored) != 0 {
		t.Error(w.told, w.stored)
	}
}
