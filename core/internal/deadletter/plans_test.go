package deadletter_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Every statement stays on its indexes, with statistics and without: 20,000 dead
// letters here, a million in the long lane, which shows what each costs as well.
func TestPlansOfRedrives(t *testing.T) {
	t.Parallel()
	f := &fixture{celltest.NewFixtureOn(t, celltest.NewURL(t))}
	check := func(when string) {
		t.Helper()
		f.CheckPlans(when, deadletter.Planned())
	}
	check("empty")
	n := 20_000
	if os.Getenv("FORGEQUEUE_FAULTS") == "long" {
		n = 1_000_000
	}
	f.AddDeadLetters(n, celltest.DeadLetterRows{})
	check("full, without statistics")
	f.steps(fmt.Sprint(n, " without statistics"))
	f.Exec("ANALYZE")
	check("full, with statistics")
	f.steps(fmt.Sprint(n, " with statistics"))
}

// steps shows what the parts of a redrive cost.
func (f *fixture) steps(when string) {
	f.Helper()
	timed := func(what string, do func() error) {
		f.Helper()
		begun := time.Now()
		if err := do(); err != nil {
			f.Fatal(err)
		}
		f.Logf("%s: %s took %v", when, what, time.Since(begun).Round(100*time.Microsecond))
	}
	timed("count", func() error {
		_, err := f.Store.DeadLetters.Matching(f.Context(), f.Tenant, "", api.DeadLetterFilter{})
		return err
	})
	timed("groups", func() error {
		_, err := f.Store.DeadLetters.DeadLetterGroups(f.Context(), f.Tenant, "", api.DeadLetterFilter{}, 50)
		return err
	})
	timed("the sample of a canary", func() error {
		f.careful(api.MaxCanaryCount, 1)
		return nil
	})
	for what, filter := range map[string]api.DeadLetterFilter{"a step": {}, "a step that finds nothing": {Type: "none"}} {
		made := f.Redrive(api.ActionRedrive, filter, nil)
		timed(what, func() error {
			_, err := f.Store.DeadLetters.StepRedrive(f.Context(), uuid.MustParse(made.ID), nil, nil, 0.5)
			return err
		})
		if _, err := f.Store.DeadLetters.CancelRedrive(f.Context(), f.Tenant, "", uuid.MustParse(made.ID)); err != nil {
			f.Fatal(err)
		}
	}
}
