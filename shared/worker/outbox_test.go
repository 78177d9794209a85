package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/worker"
)

const latency = 100 * time.Millisecond

// atOnce runs n jobs whose handlers all return at the same moment, in a worker
// with room for them and on a server that takes latency for each outcomes
// request. spoil may answer such a request in the server's place.
func atOnce(t *testing.T, n int, fn func(n int) (any, error), prepare func(b *bed), spoil func(b *bed, w http.ResponseWriter, r *http.Request) bool) *bed {
	t.Helper()
	b := newBed(t, func(o *worker.Options) { o.Concurrency = n })
	b.spoilWith(func(route string, w http.ResponseWriter, r *http.Request) bool {
		if !isOutcome(route) {
			return false
		}
		<-time.After(latency)
		return spoil != nil && spoil(b, w, r)
	})
	start := time.After(time.Second)
	all := make(chan struct{})
	go func() { <-start; close(all) }()
	worker.Handle(b.worker, "n", func(_ context.Context, job *worker.Job[int]) (any, error) {
		<-all
		return fn(job.Payload)
	})
	for i := range n {
		b.submit("n", fmt.Sprint(i))
	}
	if prepare != nil {
		prepare(b)
	}
	b.run(t)
	return b
}

func isOutcome(route string) bool {
	return route == "POST /v1/outcomes" || route == "POST /v1/jobs/{id}/{kind}"
}

// words counts the outcomes in the attempts' lines.
func (b *bed) words(t *testing.T) map[string]int {
	t.Helper()
	words := map[string]int{}
	for _, line := range b.log.attempts(t) {
		words[line["outcome"].(string)]++
	}
	return words
}

func succeed(int) (any, error) { return "done", nil }

func TestOutcomesShareRequestsUnderLoad(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const jobs, concurrency = 1000, 100
		b := newBed(t, func(o *worker.Options) { o.Concurrency = concurrency })
		atWork, most := 0, 0
		b.spoilWith(func(route string, _ http.ResponseWriter, _ *http.Request) bool {
			if !isOutcome(route) {
				return false
			}
			b.mu.Lock()
			atWork++
			most = max(most, atWork)
			b.mu.Unlock()
			<-time.After(latency)
			b.mu.Lock()
			atWork--
			b.mu.Unlock()
			return false
		})
		worker.Handle(b.worker, "quick", func(context.Context, *worker.RawJob) (any, error) { return nil, nil })
		for range jobs {
			b.submit("quick", `null`)
		}
		b.run(t)
		pass(10 * time.Second)
		b.finish(t)
		if got := b.words(t); got["completed"] != jobs {
			t.Fatalf("the attempts ended as %v", got)
		}
		t.Logf("%d outcomes in %d requests", jobs, len(b.flushes))
		if len(b.flushes) > jobs/20 || most != 1 {
			t.Errorf("%d requests, %d at a time, for %d outcomes: %v", len(b.flushes), most, jobs, b.flushes)
		}
	})
}

func TestAnIdleWorkersOutcomeGoesOutAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		worker.Handle(b.worker, "quick", func(context.Context, *worker.RawJob) (any, error) { return nil, nil })
		b.run(t)
		for range 3 {
			start := time.Now()
			id := b.submit("quick", `null`)
			pass(0)
			if got := b.state(id); got != api.StateCompleted || time.Since(start) != 0 {
				t.Errorf("after %v the job is %s", time.Since(start), got)
			}
			pass(time.Second)
		}
		if !slices.Equal(b.flushes, []int{1, 1, 1}) {
			t.Errorf("the requests carried %v", b.flushes)
		}
		b.finish(t)
	})
}

// TestEachOutcomeHasItsOwnAnswer: whatever the order of the answers, a lease
// that was lost, and one that the server cannot say anything of for now.
func TestEachOutcomeHasItsOwnAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		asked := 0
		b := atOnce(t, 20, func(n int) (any, error) {
			if n%5 == 0 {
				return nil, errors.New("odd")
			}
			return n, nil
		}, func(b *bed) {
			b.retell = func(answer *api.OutcomesResponse) {
				asked++
				if asked == 1 { // of one nothing is told, another is to come back
					answer.Results[3] = api.OutcomeResult{Index: 99, Status: http.StatusOK}
					answer.Results[4] = api.OutcomeResult{Index: 4, Status: 503, Problem: problem.New(problem.Overloaded, "")}
				}
				slices.Reverse(answer.Results)
			}
		}, func(b *bed, _ http.ResponseWriter, r *http.Request) bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			// The outcome that is ready first may be sent alone.
			its := r.URL.Path == "/v1/outcomes" || strings.HasPrefix(r.URL.Path, "/v1/jobs/job-8/")
			if j := b.jobs[7]; j.state == api.StateRunning && its {
				b.take(j) // between handler and outcome
				j.state = api.StateScheduled
			}
			return false
		})
		pass(5 * time.Second)
		b.finish(t)
		if got := b.words(t); got["completed"] != 15 || got["failed"] != 4 || got["lost"] != 1 {
			t.Errorf("the attempts ended as %v", got)
		}
		for _, line := range b.log.attempts(t) {
			if line["outcome"] == "lost" && line["job_id"] != "job-8" {
				t.Errorf("the wrong one is lost: %v", line)
			}
		}
		if len(b.outcomes) != 19 {
			t.Errorf("%d outcomes were taken", len(b.outcomes))
		}
	})
}

// TestOneBadOutcomeDoesNotFailOthers: a request is refused, or breaks, as a whole
// for what one outcome in it says.
func TestOneBadOutcomeDoesNotFailOthers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		code problem.Code
		bad  string // the bad one's word
	}{
		"refused":           {problem.InvalidJSON, "failed"},
		"too large":         {problem.PayloadTooLarge, "failed"},
		"breaks the server": {problem.Internal, "unsent"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := atOnce(t, 64, func(n int) (any, error) {
					if n == 41 {
						return "poison", nil
					}
					return n, nil
				}, nil, func(_ *bed, w http.ResponseWriter, r *http.Request) bool {
					body, _ := io.ReadAll(r.Body)
					r.Body = io.NopCloser(bytes.NewReader(body))
					bad := bytes.Contains(body, []byte(`"result":"poison"`))
					if bad {
						problem.New(test.code, "").Write(w)
					}
					return bad
				})
				pass(5 * time.Second)
				if got := b.words(t)["completed"]; got != 63 {
					t.Fatalf("after 5 s %d of 63 were taken", got)
				}
				if len(b.flushes) > 20 {
					t.Errorf("requests with %v outcomes", b.flushes)
				}
				pass(30 * time.Second)
				b.finish(t)
				if got := b.words(t); got["completed"] != 63 || got[test.bad] != 1 {
					t.Errorf("the attempts ended as %v", got)
				}
			})
		})
	}
}

// TestALostReplyIsAskedForAgain: the server has taken the outcomes, and nobody
// heard. The same outcomes get the same answers.
func TestALostReplyIsAskedForAgain(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]int{"within a call": 1, "over several": 9} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				lost := 0
				b := atOnce(t, 50, succeed, nil, func(b *bed, w http.ResponseWriter, r *http.Request) bool {
					if lost == most {
						return false
					}
					lost++
					if r.URL.Path == "/v1/outcomes" {
						b.manyOutcomes(httptest.NewRecorder(), r)
					} else {
						b.oneOutcome(httptest.NewRecorder(), r)
					}
					conn, _, err := w.(http.Hijacker).Hijack()
					if err == nil {
						_ = conn.Close()
					}
					return true
				})
				pass(20 * time.Second)
				b.finish(t)
				if got := b.words(t); got["completed"] != 50 || len(b.outcomes) != 50 || lost != most {
					t.Errorf("%d replies were lost, %d outcomes taken, the attempts ended as %v", lost, len(b.outcomes), got)
				}
			})
		})
	}
}

func TestRequestsKeepToTheSizeOfABatch(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := atOnce(t, 40, func(n int) (any, error) {
			if n%10 == 0 {
				return nil, errors.New(strings.Repeat("\u0001", 10_000))
			}
			return strings.Repeat("<", api.MaxResult-2), nil
		}, nil, func(_ *bed, w http.ResponseWriter, r *http.Request) bool {
			if r.ContentLength > api.MaxBatchBody {
				problem.New(problem.PayloadTooLarge, "").Write(w)
				t.Errorf("a request of %d bytes", r.ContentLength)
				return true
			}
			return false
		})
		pass(5 * time.Second)
		b.finish(t)
		if got := b.words(t); got["completed"] != 36 || got["failed"] != 4 || len(b.flushes) > 5 {
			t.Errorf("requests with %v outcomes, the attempts ended as %v", b.flushes, got)
		}
	})
}

func TestAServerThatTakesNoOutcomesIsNotHammered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		asked, away := 0, true
		b := atOnce(t, 200, succeed, nil, func(b *bed, w http.ResponseWriter, _ *http.Request) bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			if away {
				asked++
				problem.New(problem.OutcomeUnknown, "").Write(w)
			}
			return away
		})
		pass(time.Minute)
		b.mu.Lock()
		if asked < 10 || asked > 60 {
			t.Errorf("asked %d times in a minute", asked)
		}
		away = false
		b.mu.Unlock()
		pass(10 * time.Second)
		if got := b.words(t); got["completed"] != 200 {
			t.Errorf("the attempts ended as %v", got)
		}
		b.finish(t)
	})
}

func TestARefusedKeyLeavesOutcomesUnsent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		asked := 0
		b := atOnce(t, 30, succeed, nil, func(b *bed, w http.ResponseWriter, _ *http.Request) bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			asked++
			problem.New(problem.Unauthenticated, "revoked").Write(w)
			return true
		})
		pass(5 * time.Second)
		if got := b.words(t); got["unsent"] != 30 || asked > 4 {
			t.Errorf("asked %d times, the attempts ended as %v", asked, got)
		}
		b.finish(t)
	})
}

// TestADeepResultFindsItsOwnRoute: in a batch a result lies two levels lower, and
// the server counts levels.
func TestADeepResultFindsItsOwnRoute(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		deep := json.RawMessage(strings.Repeat("[", api.MaxDepth-1) + strings.Repeat("]", api.MaxDepth-1))
		b := atOnce(t, 8, func(int) (any, error) { return deep, nil }, nil, func(_ *bed, w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/v1/outcomes" {
				problem.New(problem.InvalidJSON, "nested more than 32 levels deep").Write(w)
				return true
			}
			return false
		})
		pass(5 * time.Second)
		b.finish(t)
		if got := b.words(t); got["completed"] != 8 {
			t.Errorf("the attempts ended as %v", got)
		}
	})
}

// TestAnOutcomeWithoutAResultIsSentAgain: what the server does not tell of, it
// may not have taken.
func TestAnOutcomeWithoutAResultIsSentAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		skipped := ""
		b := atOnce(t, 10, succeed, nil, func(b *bed, w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/v1/outcomes" || skipped != "" {
				return false
			}
			var request api.OutcomesRequest
			b.read(r, &request)
			last := len(request.Outcomes) - 1
			skipped, request.Outcomes = request.Outcomes[last].JobID, request.Outcomes[:last]
			r.Body = io.NopCloser(strings.NewReader(asJSON(t, request)))
			b.manyOutcomes(w, r)
			return true
		})
		pass(5 * time.Second)
		if got := b.state(skipped); got != api.StateCompleted {
			t.Errorf("the job that was skipped is %s", got)
		}
		b.finish(t)
	})
}

// TestAServerThatGoesAwayWhileABatchIsHalved: the halves to come are spared it,
// and none of the outcomes is forgotten, or counted twice.
func TestAServerThatGoesAwayWhileABatchIsHalved(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const jobs = 330 // by what their errors may weigh, a few wait for a later request meanwhile
		away := true
		b := atOnce(t, jobs, func(int) (any, error) { return nil, errors.New(strings.Repeat("x", api.MaxErrorMessage)) }, nil,
			func(b *bed, w http.ResponseWriter, r *http.Request) bool {
				b.mu.Lock()
				defer b.mu.Unlock()
				switch {
				case !away:
					return false
				case r.ContentLength > 25*api.MaxErrorMessage:
					problem.New(problem.InvalidJSON, "").Write(w)
				default:
					problem.New(problem.CoreUnavailable, "").Write(w)
				}
				return true
			})
		pass(20 * time.Second)
		b.mu.Lock()
		if found := strings.Count(b.log.String(), "outcomes were not taken"); found < 4 || found > 12 {
			t.Errorf("found the server away %d times in 20 s", found)
		}
		away = false
		b.mu.Unlock()
		pass(20 * time.Second)
		if got := b.words(t); got["failed"] != jobs || len(b.outcomes) != jobs {
			t.Errorf("the attempts ended as %v", got)
		}
		b.finish(t)
	})
}

// A server that fails whatever it gets is not sent a request for each outcome: a round has a bounded number of requests,
// and a pause comes after it. What is healthy again takes all outcomes.
func TestAServerThatFailsIsNotFlooded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const jobs = 200
		var times []time.Time
		start := time.Now()
		b := atOnce(t, jobs, succeed, nil, func(b *bed, w http.ResponseWriter, r *http.Request) bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			times = append(times, time.Now())
			if time.Since(start) > 15*time.Second {
				return false
			}
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusInternalServerError)
			return true
		})
		pass(14 * time.Second)
		b.mu.Lock()
		streak, longest := 0, 0
		for i := range times {
			if streak++; i > 0 && times[i].Sub(times[i-1]) > 3*latency/2 {
				streak = 1
			}
			longest = max(longest, streak)
		}
		b.mu.Unlock()
		// By halves down to each outcome it would be 399 in a row.
		if longest > 70 {
			t.Errorf("%d requests for %d outcomes without a pause", longest, jobs)
		}
		pass(time.Minute)
		b.finish(t)
		if words := b.words(t); words["completed"] != jobs {
			t.Errorf("%v", words)
		}
	})
}
