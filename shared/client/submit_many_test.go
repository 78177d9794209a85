package client_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

func sum(lines string) string { return fmt.Sprintf("unique:%x", sha256.Sum256([]byte(lines))) }

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func deadline(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// batches answers each batch: a job whose text is "bad" is refused.
func batches(t *testing.T, header func(n int, h http.Header)) (s *server, sizes func() []int) {
	t.Helper()
	s = serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		var batch api.BatchRequest
		if err := json.Unmarshal([]byte(s.all()[n].Body), &batch); err != nil {
			t.Error(err)
		}
		header(n, w.Header())
		var all api.BatchResponse
		for i, job := range batch.Jobs {
			result := api.BatchResult{Index: i, Status: http.StatusAccepted, Job: &api.BatchJob{ID: string(job.Payload)}}
			if strings.Contains(string(job.Payload), "bad") {
				p := problem.New(problem.QueueFull, "full")
				result = api.BatchResult{Index: i, Status: p.Status, Problem: p}
				all.Rejected++
			} else {
				all.Accepted++
			}
			all.Results = append(all.Results, result)
		}
		answer(w, http.StatusOK, all)
	})
	return s, func() []int {
		var sizes []int
		for _, request := range s.all() {
			if len(request.Body) > api.MaxBatchBody {
				t.Errorf("a body of %d bytes", len(request.Body))
			}
			sizes = append(sizes, strings.Count(request.Body, `"type":`))
		}
		return sizes
	}
}

func TestSubmitManyIsCutIntoBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, sizes := batches(t, func(_ int, h http.Header) { h.Set("Idempotent-Replayed", "true") })
		args := make([]client.JobArgs, 2300)
		for i := range args {
			args[i] = note{fmt.Sprint("n", i)}
		}
		args[1500] = note{"bad"}
		args[1700] = report{Day: "mon"}
		replayed := false
		got, err := client.SubmitMany(t.Context(), s.client, args, client.WithIdempotencyKey("k"), client.WithReplayed(&replayed), client.JobOptions{Queue: "q"})
		if err != nil || got.Accepted != 2299 || got.Rejected != 1 || len(got.Results) != 2300 || !replayed {
			t.Fatalf("%d accepted, %d rejected, %d results, replayed %v, %v", got.Accepted, got.Rejected, len(got.Results), replayed, err)
		}
		for i, result := range got.Results {
			if result.Index != i || (result.Problem != nil) != (i == 1500) || i != 1500 && i != 1700 && result.Job.ID != fmt.Sprintf(`{"text":"n%d"}`, i) {
				t.Fatalf("result %d is %+v", i, result)
			}
		}
		if fmt.Sprint(sizes()) != "[1000 1000 300]" {
			t.Errorf("batches of %v", sizes())
		}
		for n, request := range s.all() {
			if want := []string{"k", "k/2", "k/3"}[n]; request.Header.Get("Idempotency-Key") != want || !strings.Contains(request.Body, `"queue":"q"`) {
				t.Errorf("batch %d: %v", n, request.Header)
			}
		}
	})
}

// A batch has 8 MiB at most, and a payload that is too large is its own problem.
func TestSubmitManyKeepsToTheSize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, sizes := batches(t, func(int, http.Header) {})
		large, tooLarge := strings.Repeat("x", api.MaxPayload-20), strings.Repeat("x", 9<<20)
		args := []note{{tooLarge}, {"a"}, {tooLarge}}
		for range 40 {
			args = append(args, note{large})
		}
		got, err := client.SubmitMany(t.Context(), s.client, args)
		if err != nil || got.Accepted != 41 || got.Rejected != 2 || len(got.Results) != 43 {
			t.Fatalf("%d accepted, %d rejected, %d results, %v", got.Accepted, got.Rejected, len(got.Results), err)
		}
		for i, result := range got.Results {
			if refused := result.Problem != nil && result.Problem.Code == problem.PayloadTooLarge; result.Index != i || refused != (i == 0 || i == 2) {
				t.Errorf("result %d: %+v", i, result)
			}
		}
		if fmt.Sprint(sizes()) != "[1 31 9]" {
			t.Errorf("batches of %v", sizes())
		}
	})
}

func TestSubmitManyBreaksOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			switch n {
			case 0:
				answer(w, http.StatusOK, api.BatchResponse{Accepted: 1000, Results: make([]api.BatchResult, 1000)})
			case 1:
				refuse(w, problem.Forbidden)
			default:
				answer(w, http.StatusOK, api.BatchResponse{Results: make([]api.BatchResult, 2)})
			}
		})
		replayed := true
		got, err := client.SubmitMany(t.Context(), s.client, make([]note, 1500), client.WithReplayed(&replayed))
		if client.Status(err) != http.StatusForbidden || !strings.Contains(err.Error(), "jobs 1000 to 1499 of 1500") || len(got.Results) != 1000 || got.Accepted != 1000 {
			t.Errorf("%d results, %v", len(got.Results), err)
		}
		if replayed {
			t.Error("replayed is left as it was")
		}
		if got, err := client.SubmitMany(t.Context(), s.client, make([]note, 3)); err == nil || len(got.Results) != 0 {
			t.Errorf("an answer of another length: %d results, %v", len(got.Results), err)
		}
		before := len(s.all())
		if _, err := client.SubmitMany(t.Context(), s.client, []client.JobArgs{note{}, cyclic{}}); err == nil || !strings.Contains(err.Error(), "no. 1 of 2") {
			t.Error(err)
		}
		if _, err := client.SubmitMany(t.Context(), s.client, []note{{}}, client.WithIdempotencyKey("a\nb")); client.Status(err) != http.StatusBadRequest {
			t.Error(err)
		}
		if got, err := client.SubmitMany[note](t.Context(), s.client, nil); err != nil || got.Results == nil || len(s.all()) != before {
			t.Errorf("nothing: %+v, %v, and %d calls", got, err, len(s.all())-before)
		}
	})
}
