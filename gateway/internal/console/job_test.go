package console

import (
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
)

// The page of a job says once how many are ahead of it, and nothing of none.
func TestAheadOf(t *testing.T) {
	for _, one := range []struct {
		code  string
		ahead *api.Ahead
		shown bool
	}{
		{api.WhyInLine, &api.Ahead{Count: 3}, false}, // the reason has the number
		{api.WhyNoWorker, &api.Ahead{Count: 3}, true},
		{api.WhyNoWorker, &api.Ahead{}, false},
		{api.WhyTime, nil, false},
	} {
		why := api.Explanation{Because: []api.Reason{{Code: one.code}}, Ahead: one.ahead}
		if got := aheadOf(&why); (got != nil) != one.shown {
			t.Errorf("%s %+v: %+v", one.code, one.ahead, got)
		}
	}
}

func TestJobsOfARedrive(t *testing.T) {
	const left = "/console/dead-letters/group?fingerprint=f&queue=a"
	if got := (redrive{Redrive: api.Redrive{Filter: api.DeadLetterFilter{Queue: "a", Fingerprint: "f"}}}).LettersPath(); got != left {
		t.Errorf("%q, want %q", got, left)
	}
	for want, filter := range map[string]api.DeadLetterFilter{
		"":                             {Fingerprint: "f"},
		"/console/jobs?queue=a&type=b": {Queue: "a", Type: "b", Fingerprint: "f"},
	} {
		if got := (redrive{Redrive: api.Redrive{Filter: filter}}).JobsPath(); got != want {
			t.Errorf("%+v: %q, want %q", filter, got, want)
		}
	}
}
