package store

import (
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/metrics"
)

func primaryOf(t *testing.T, url string) (*primary, *pgx.ConnConfig) {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return newPrimary(config, nil), config
}

const threeHosts = "postgres://u@a:1,b:2,c:3/d?sslmode=prefer"

// A server of another system, or on a lower timeline, is refused; a higher timeline is believed.
func TestOnlyTheNewestPrimaryIsAccepted(t *testing.T) {
	t.Parallel()
	p, _ := primaryOf(t, "postgres://u@a/d")
	for _, step := range []struct {
		found  place
		reason string // empty: accepted
	}{
		{place{}, ""},
		{place{system: "one", timeline: 3}, ""},
		{place{system: "one", timeline: 2}, metrics.OldTimeline},
		{place{system: "two", timeline: 9}, metrics.OtherSystem},
		{place{system: "one", timeline: 3}, ""},
		{place{system: "one", timeline: 5}, ""},
		{place{system: "one", timeline: 3}, metrics.OldTimeline},
		{place{}, ""}, // it does not tell
	} {
		err := p.accept(t.Context(), step.found, "a:5432")
		refusal, refused := errors.AsType[*WrongPrimaryError](err)
		if refused != (step.reason != "") || refused && refusal.Reason != step.reason {
			t.Errorf("%+v: %v, want %q", step.found, err, step.reason)
		}
	}
	if timeline, old, other := p.state(); timeline != 5 || old != 2 || other != 1 {
		t.Errorf("timeline %d, %d refused as old, %d as another's", timeline, old, other)
	}
}

// A survey before the first connection knows the highest timeline, a standby's too, and connections
// are then tried at the primary first, with TLS and without.
func TestASurveyFindsThePrimary(t *testing.T) {
	t.Parallel()
	p, config := primaryOf(t, threeHosts)
	if len(p.hosts) != 3 || len(config.Fallbacks) != 5 {
		t.Fatalf("%d hosts, %d fallbacks", len(p.hosts), len(config.Fallbacks))
	}
	tried := func() (hosts []string) {
		t.Helper()
		copied := config.Copy()
		if err := p.primaryFirst(t.Context(), copied); err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries(copied) {
			hosts = append(hosts, entry.Host)
		}
		return hosts
	}
	inOrder := []string{"a", "a", "b", "b", "c", "c"}
	if got := tried(); !slices.Equal(got, inOrder) {
		t.Errorf("before a survey: %v", got)
	}
	p.learn(t.Context(), []place{{}, {}, {}}) // nobody answers
	if timeline, _, _ := p.state(); timeline != 0 || !slices.Equal(tried(), inOrder) {
		t.Errorf("after an empty survey: timeline %d, %v", timeline, tried())
	}
	p.learn(t.Context(), []place{{system: "s", timeline: 1}, {system: "s", timeline: 2}, {standby: true, system: "s", timeline: 2}})
	if timeline, old, _ := p.state(); timeline != 2 || old != 1 {
		t.Errorf("timeline %d, %d refused", timeline, old)
	}
	if got := tried(); !slices.Equal(got, []string{"b", "b", "a", "a", "c", "c"}) {
		t.Errorf("after a survey: %v", got)
	}
	// The primary is away; a standby has heard of a still newer one, whose host does not answer yet.
	p.learn(t.Context(), []place{{system: "s", timeline: 1}, {}, {standby: true, system: "s", timeline: 3}})
	if err := p.accept(t.Context(), place{system: "s", timeline: 2}, "b:2"); err == nil {
		t.Error("a server on timeline 2 was accepted when a standby is on 3")
	}
	if err := p.accept(t.Context(), place{system: "s", timeline: 3}, "c:3"); err != nil {
		t.Error(err)
	}
}
