package operations

import (
	"bytes"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/wirejson"
	"github.com/forgequeue/forgequeue/shared/server/wirejson/wirejsontest"
)

// Whatever a job is, the answer to its submit is what encoding/json writes of it: each field, set and unset.
func TestSubmittedTextIsThatOfItsType(t *testing.T) {
	t.Parallel()
	for _, r := range wirejsontest.Values[api.SubmitResponse](t, 2000) {
		want, err := wirejson.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := submittedText(&r); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%v\n%s, want\n%s", err, got, want)
		}
	}
}

func BenchmarkSubmittedText(b *testing.B) {
	trace := "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
	r := api.SubmitResponse{JobSummary: api.JobSummary{
		ID: "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001", Type: "hash.sha256", Queue: "default", State: "queued", Tags: []string{}, Metadata: map[string]string{},
		Retry: api.Retry{BaseMS: 1000, CapMS: 60000, Jitter: 0.2, Curve: "exponential"}, RunAt: &api.Time{Time: time.Now()}, CreatedAt: api.Time{Time: time.Now()},
		CorrelationID: &trace, After: []api.JobDependency{}, WaitingFor: []string{},
	}, Warnings: []string{}}
	for name, write := range map[string]func() ([]byte, error){
		"written": func() ([]byte, error) { return submittedText(&r) }, "reflected": func() ([]byte, error) { return wirejson.Marshal(r) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := write(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
