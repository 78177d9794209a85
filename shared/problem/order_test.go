package problem_test

import (
	"slices"
	"testing"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// However a request is checked, its errors are in one order: that of the fields in the API's document.
func TestErrorsAreInTheOrderOfTheDocument(t *testing.T) {
	t.Parallel()
	want := []string{
		"name", "type", "queue", "dedupe_key", "jobs", "jobs[2].type", "jobs[2].after", "jobs[2].after[1]", "jobs[2].after[1].on_failed", "jobs[2].retry.cap_ms",
		"jobs[2].retry.jitter", "jobs[10].type", "metadata", "metadata.k", "priority",
	}
	var given []problem.FieldError
	for _, field := range want {
		given = append(given, problem.FieldError{Field: field, Message: "first"}, problem.FieldError{Field: field, Message: "second"})
	}
	for range 20 {
		slices.Reverse(given)
		var got []string
		for i, one := range problem.Invalid(given...).Errors {
			if i%2 == 0 {
				got = append(got, one.Field)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got  %q\nwant %q", got, want)
		}
		given = append(given[3:], given[:3]...)
	}
}
