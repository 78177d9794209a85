package worker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/worker"
)

// text is the output of some streams, or of all.
func (s *server) text(streams ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := ""
	for _, chunk := range s.said {
		if len(streams) == 0 || strings.Contains(strings.Join(streams, " "), chunk.Stream) {
			text += chunk.Text
		}
	}
	return text
}

func (s *server) saidTimes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.saidRequests)
}

// runOne runs one job with a handler, and calls meanwhile while it runs.
func runOne(t *testing.T, b *bed, handler func(ctx context.Context, job *worker.RawJob) (any, error), meanwhile func(id string)) {
	t.Helper()
	worker.Handle(b.worker, "talk", handler)
	id := b.submit("talk", `{}`)
	b.run(t)
	if meanwhile != nil {
		meanwhile(id)
	}
	b.finish(t)
}

func TestOutputIsGathered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		runOne(t, b, func(_ context.Context, job *worker.RawJob) (any, error) {
			for page := range 3 {
				_, _ = fmt.Fprintf(job.Output(), "page %d\n", page)
			}
			job.Logf("%d of %d", 3, 9)
			_, _ = fmt.Fprint(job.ErrOutput(), "page 4 is empty: ")
			rest(time.Second)
			_, _ = fmt.Fprint(job.ErrOutput(), "left out\n")
			rest(time.Second)
			job.Logf("the end\n")
			return "done", nil
		}, func(string) {
			pass(200 * time.Millisecond)
			if n := b.saidTimes(); n != 0 {
				t.Errorf("%d requests before it was gathered", n)
			}
			pass(100 * time.Millisecond)
			if n := b.saidTimes(); n != 1 {
				t.Errorf("%d requests after a quarter of a second", n)
			}
			pass(time.Second)
			if got := b.text(api.OutputErr); got != "page 4 is empty: left out\n" {
				t.Errorf("on its way: %q", got)
			}
		})
		if got := b.text(); got != "page 0\npage 1\npage 2\n3 of 9\npage 4 is empty: left out\nthe end\n" {
			t.Errorf("%q", got)
		}
		if got := b.text(api.OutputLog); got != "3 of 9\nthe end\n" {
			t.Errorf("%q", got)
		}
		if n := b.saidTimes(); n != 3 || len(b.said) != 5 || b.said[4].Seq != 5 {
			t.Errorf("%d requests, %+v", n, b.said)
		}
		if got := b.only(t); got.kind != api.KindComplete {
			t.Errorf("%+v", got)
		}
	})
}

// An attempt that says nothing sends nothing; one that has no worker says it to nobody.
func TestSilenceIsNotSent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		runOne(t, b, func(_ context.Context, job *worker.RawJob) (any, error) {
			_, err := job.Output().Write(nil)
			return nil, err
		}, nil)
		if n := b.saidTimes(); n != 0 {
			t.Errorf("%d requests", n)
		}
		nobody := &worker.RawJob{}
		nobody.Logf("hello")
		if n, err := io.WriteString(nobody.Output(), "hello"); n != 5 || err != nil {
			t.Error(n, err)
		}
	})
}

// A character that is written in two parts stays whole, also where a chunk is full; what is none becomes U+FFFD.
func TestOutputIsText(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		long := strings.Repeat("€", api.MaxOutputChunk) // three bytes each: 48 KiB
		runOne(t, b, func(_ context.Context, job *worker.RawJob) (any, error) {
			for _, part := range []string{"a\xe2\x82", "\xacb", "\x00c\xffd", long[:40001], long[40001:], "\xf0\x9f\x98"} {
				if _, err := io.WriteString(job.Output(), part); err != nil {
					return nil, err
				}
				_, _ = io.WriteString(job.ErrOutput(), "|")
			}
			return nil, nil
		}, nil)
		got := b.text(api.OutputOut)
		if want := "a€b\uFFFDc\uFFFDd" + long + "\uFFFD"; got != want || !utf8.ValidString(got) {
			t.Errorf("%d bytes, %q …", len(got), got[:20])
		}
		if got := b.text(api.OutputErr); got != "||||||" {
			t.Errorf("%q", got)
		}
		for _, chunk := range b.said {
			if len(chunk.Text) > api.MaxOutputChunk {
				t.Errorf("a chunk of %d bytes", len(chunk.Text))
			}
		}
	})
}

// While the server does not answer nothing is lost that fits, and a repeat has the same numbers.
func TestOutputOutlivesAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		failures := 0
		b.spoilWith(func(route string, w http.ResponseWriter, r *http.Request) bool {
			if route != "POST /v1/jobs/{id}/output" || failures >= 5 {
				return false
			}
			if failures++; failures == 1 { // its answer is lost
				b.output(discarding{}, r)
			}
			problem.New(problem.CoreUnavailable, "").Write(w)
			return true
		})
		runOne(t, b, func(_ context.Context, job *worker.RawJob) (any, error) {
			for n := range 10 {
				job.Logf("line %d", n)
				rest(time.Second)
			}
			return nil, nil
		}, func(string) { pass(20 * time.Second) })
		want := ""
		for n := range 10 {
			want += fmt.Sprintf("line %d\n", n)
		}
		if got := b.text(); got != want || failures != 5 || b.saidRequests[1].Chunks[0] != b.saidRequests[0].Chunks[0] {
			t.Errorf("%q after %d failures", got, failures)
		}
	})
}

type discarding struct{}

func (discarding) Header() http.Header         { return http.Header{} }
func (discarding) Write(p []byte) (int, error) { return len(p), nil }
func (discarding) WriteHeader(int)             {}

// Beyond 256 KiB the oldest is dropped, and a note is in its place. The handler never waits, and does not fail.
func TestOutputThatIsTooMuchIsDropped(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		down := true
		b.spoilWith(func(route string, w http.ResponseWriter, _ *http.Request) bool {
			if route == "POST /v1/jobs/{id}/output" && down {
				problem.New(problem.CoreUnavailable, "").Write(w)
				return true
			}
			return false
		})
		const lines = 50_000
		line := func(n int) string { return fmt.Sprintf("line %09d\n", n) }
		runOne(t, b, func(_ context.Context, job *worker.RawJob) (any, error) {
			job.Logf("first")
			rest(time.Second) // it is under way
			began := time.Now()
			for n := range lines {
				_, _ = io.WriteString(job.Output(), line(n))
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("the handler was held up for %v", took)
			}
			rest(10 * time.Second)
			return nil, nil
		}, func(string) {
			pass(5 * time.Second)
			b.mu.Lock()
			down = false
			b.mu.Unlock()
			pass(10 * time.Second)
		})
		got := b.text()
		first, rest, _ := strings.Cut(got, "\n[... ")
		var dropped int
		if _, err := fmt.Sscanf(rest, "%d bytes of output could not be sent in time ...]\n", &dropped); err != nil || first != "first\n" {
			t.Fatalf("%v, %q", err, got[:100])
		}
		_, rest, _ = strings.Cut(rest, "]\n")
		if dropped+len(rest) != lines*len(line(0)) || len(rest) < 200<<10 || len(rest) > 256<<10 || !strings.HasSuffix(rest, line(lines-1)) {
			t.Errorf("%d bytes were dropped, %d kept", dropped, len(rest))
		}
		if got := b.only(t); got.kind != api.KindComplete {
			t.Errorf("%+v", got)
		}
	})
}

// An outcome waits for a few seconds for the output before it, no longer.
func TestOutputHoldsUpNoOutcome(t *testing.T) {
	for name, status := range map[string]int{"silent": 0, "unavailable": http.StatusServiceUnavailable, "refused": http.StatusBadRequest, "none": http.StatusNotFound} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := newBed(t)
				b.spoilWith(func(route string, w http.ResponseWriter, r *http.Request) bool {
					if route != "POST /v1/jobs/{id}/output" {
						return false
					}
					if status == 0 {
						<-r.Context().Done()
					} else {
						w.WriteHeader(status)
					}
					return true
				})
				var returned time.Time
				runOne(t, b, func(_ context.Context, job *worker.RawJob) (any, error) {
					job.Logf("hello")
					returned = time.Now()
					return nil, errors.New("boom")
				}, func(string) { pass(10 * time.Second) })
				if got := b.only(t); got.kind != api.KindFail || got.held > 4*time.Second {
					t.Errorf("%s after %v", got.kind, got.held)
				}
				if b.text() != "" || !strings.Contains(b.log.String(), "output") || returned.IsZero() {
					t.Errorf("%q, %s", b.text(), b.log.String())
				}
			})
		})
	}
}

// What was said under a lease that is lost is sent no more.
func TestOutputOfALostLease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		runOne(t, b, func(ctx context.Context, job *worker.RawJob) (any, error) {
			if job.Attempt > 1 {
				return nil, nil
			}
			job.Logf("one")
			rest(time.Second)
			b.steal(job.ID)
			job.Logf("two")
			rest(time.Second)
			job.Logf("three")
			<-ctx.Done()
			return nil, ctx.Err()
		}, func(string) { pass(30 * time.Second) })
		if got := b.text(); got != "one\n" {
			t.Errorf("%q", got)
		}
	})
}

func TestAttemptOutput(t *testing.T) {
	t.Parallel()
	b := serve(t)
	w, err := worker.New(worker.Options{Client: b.client})
	if err != nil {
		t.Fatal(err)
	}
	worker.Handle(w, "talk", func(_ context.Context, job *worker.RawJob) (any, error) {
		job.Logf("one")
		_, err := io.WriteString(job.Output(), "two\xe2")
		return nil, err
	})
	_, _, said, err := w.AttemptOutput(t.Context(), api.ClaimedJob{ID: "j1", Type: "talk"})
	if got := asJSON(t, said); err != nil || got != `[{"seq":1,"stream":"log","text":"one\n"},{"seq":2,"stream":"out","text":"two`+"\uFFFD"+`"}]` {
		t.Errorf("%s, %v", got, err)
	}
}
