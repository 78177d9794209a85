package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// events writes events of a job, each "NAME STATE", "output ID", or what begins with ":" as it is.
func events(t *testing.T, w http.ResponseWriter, all ...string) {
	t.Helper()
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	for _, one := range all {
		if strings.HasPrefix(one, ":") {
			_, _ = fmt.Fprintf(w, "%s\n\n", one)
		} else {
			name, state, _ := strings.Cut(one, " ")
			data, id := []byte("{}"), ""
			var err error
			switch {
			case name == "output":
				id = "id: " + state + "\r\n"
				data, err = json.Marshal(api.Output{ID: state, Stream: api.OutputOut, Text: "text " + state})
			case state != "":
				data, err = json.Marshal(api.Job{JobSummary: api.JobSummary{ID: "j1", State: state}})
			}
			if err != nil {
				t.Error(err)
			}
			_, _ = fmt.Fprintf(w, "event: %s\r\n%sdata: %s\r\n\r\n", name, id, data)
		}
		_ = http.NewResponseController(w).Flush()
	}
}

// follow collects the states of a sequence, and its error.
func (s *server) follow(ctx context.Context, id string) (states []string, err error) {
	for job, wrong := range s.client.Events(ctx, id) {
		if err = wrong; err == nil {
			states = append(states, job.State)
		}
	}
	return states, err
}

func TestEventsGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
			switch n {
			case 0: // it breaks off
				events(t, w, ": hello", "job queued", "later queued", "job running")
				panic(http.ErrAbortHandler)
			case 1:
				events(t, w, "job running", "again")
			case 2, 3, 4, 5, 6: // for longer than other calls would try
				problem.New(problem.CoreUnavailable, "Core cannot be reached.").Write(w)
			case 7: // silent: neither an event nor a comment
				events(t, w, "job running")
				<-r.Context().Done()
			default:
				events(t, w, "job running")
				for range 4 { // comments keep it open
					<-time.After(30 * time.Second)
					events(t, w, ": still here")
				}
				events(t, w, "job scheduled", "end completed", "job running")
			}
		})
		states, err := s.follow(t.Context(), "j1")
		if want := []string{"queued", "running", "scheduled", "completed"}; err != nil || !slices.Equal(states, want) {
			t.Errorf("%v, %v", states, err)
		}
		all := s.all()
		if len(all) != 9 || all[0].Path != "/v1/jobs/j1/events" || !strings.HasPrefix(all[0].Header.Get("Accept"), "text/event-stream") {
			t.Errorf("%d requests, the first %+v", len(all), all[0])
		}
	})
}

// A stream that is opened again continues after the last piece of output.
func TestFollowLosesNoOutput(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			switch n {
			case 0: // it breaks off before the job
				events(t, w, "output 1.1")
				panic(http.ErrAbortHandler)
			case 1, 2, 3, 4, 5, 6:
				problem.New(problem.CoreUnavailable, "Core cannot be reached.").Write(w)
			case 7: // what was there does not come twice
				events(t, w, "output 1.1", "output 1.2", "job running", "output 1.10", "again")
			case 8:
				events(t, w, "job running", "output 2.1", "again")
			default:
				events(t, w, "end completed", "output 3.1")
			}
		})
		got := []string{}
		for event, err := range s.client.Follow(t.Context(), "j1", "") {
			switch {
			case err != nil:
				t.Error(err)
			case event.Output != nil:
				got = append(got, event.Output.Text)
			default:
				got = append(got, event.Job.State)
			}
		}
		if want := []string{"text 1.1", "text 1.2", "running", "text 1.10", "text 2.1", "completed"}; !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		last := []string{}
		for _, one := range s.all() {
			last = append(last, one.Header.Get("Last-Event-ID"))
		}
		if want := []string{"", "1.1", "1.1", "1.1", "1.1", "1.1", "1.1", "1.1", "1.10", "2.1"}; !slices.Equal(last, want) {
			t.Errorf("the streams go on after %q", last)
		}
		for range s.client.Follow(t.Context(), "j1", "1.7") {
			break
		}
		if all := s.all(); all[10].Header.Get("Last-Event-ID") != "1.7" {
			t.Errorf("%q", all[10].Header)
		}
	})
}

func TestEventsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan struct{})
		s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.Contains(r.URL.Path, "unknown"):
				problem.New(problem.NotFound, "There is none.").Write(w)
			case strings.Contains(r.URL.Path, "down"):
				problem.New(problem.CoreUnavailable, "Core cannot be reached.").Write(w)
			case strings.Contains(r.URL.Path, "empty"):
				events(t, w)
			case strings.Contains(r.URL.Path, "page"):
				_, _ = fmt.Fprint(w, "<html>")
			case strings.Contains(r.URL.Path, "broken"):
				_, _ = fmt.Fprint(w, "event: job\ndata: {\n\n")
			default:
				events(t, w, "job queued", "job running")
				<-r.Context().Done()
				gone <- struct{}{}
			}
		})
		if _, err := s.follow(t.Context(), "unknown"); problem.NotFound != codeOf(err) {
			t.Errorf("of an unknown job: %v", err)
		}
		for _, id := range []string{"down", "empty", "page", "broken", "", ".."} {
			if states, err := s.follow(t.Context(), id); err == nil || len(states) != 0 {
				t.Errorf("%q: %v, %v", id, states, err)
			}
		}
		// The caller has seen enough: the stream is closed.
		for range s.client.Events(t.Context(), "j1") {
			break
		}
		<-gone
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute/2)
		defer cancel()
		states, err := s.follow(ctx, "j1")
		<-gone
		if !errors.Is(err, context.DeadlineExceeded) || len(states) != 2 {
			t.Errorf("at its deadline: %v, %v", states, err)
		}
	})
}

func codeOf(err error) problem.Code {
	p, ok := problem.From(err)
	if !ok {
		return ""
	}
	return p.Code
}
