package jobs_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
)

// completed gives what a shell would offer for a command line.
func completed(f *commandtest.Fixture, args ...string) (offered []string) {
	f.Helper()
	r := f.Run(append([]string{"__complete"}, args...)...)
	lines := strings.Split(strings.TrimSpace(r.Out), "\n")
	if r.Code != 0 || !strings.HasPrefix(lines[len(lines)-1], ":") {
		f.Fatalf("%v: %+v", args, r)
	}
	for _, line := range lines[:len(lines)-1] {
		name, _, _ := strings.Cut(line, "\t")
		offered = append(offered, name)
	}
	return offered
}

// Ids and names are completed from the server, and what is fixed from a list.
func TestCompletion(t *testing.T) {
	f := commandtest.New(t).Alone() // only the newest are offered
	q := f.Queue()
	waiting, cancelled := f.Submitted(q+".small", "-q", q), f.Submitted(q+".small", "-q", q)
	f.Must("job", "cancel", cancelled)
	f.Must("schedule", "set", q+"-nightly", "--cron", "0 3 * * *", "--type", "small", "-q", q)
	for _, test := range []struct {
		args       string
		want, none string
	}{
		{"job get ", waiting, ""},
		{"job get ", cancelled, ""},
		{"job rerun ", cancelled, waiting},
		{"job cancel ", waiting, cancelled},
		{"queues get ", q, ""},
		{"jobs --queue ", q, ""},
		{"jobs --state ", "queued", q},
		{"jobs --type ", q + ".small", q},
		{"submit ", q + ".small", q},
		{"schedule trigger ", q + "-nightly", q},
		{"key create x --scopes ", "submit", q},
		{"jobs --output ", "jsonl", ""},
	} {
		offered := completed(f, strings.Split(test.args, " ")...)
		has := "," + strings.Join(offered, ",") + ","
		if !strings.Contains(has, ","+test.want+",") || test.none != "" && strings.Contains(has, ","+test.none+",") {
			t.Errorf("%s: %q, want %s and not %s", test.args, offered, test.want, test.none)
		}
	}
	if offered := completed(f, "tenant", "get", ""); len(offered) == 0 {
		t.Error("no tenant is offered")
	}
}

// Without a server or a key there is nothing to offer, at once and without a word; a server that does not answer is
// waited for a second.
func TestCompletionWithoutAServer(t *testing.T) {
	f := commandtest.New(t)
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(time.Minute):
		}
	}))
	defer hangs.Close()
	for _, f := range []*commandtest.Fixture{
		f.With("FORGEQUEUE_URL", "http://127.0.0.1:1"), f.With("FORGEQUEUE_API_KEY", ""), f.With("FORGEQUEUE_API_KEY", "fq_live_x"), f.With("FORGEQUEUE_URL", hangs.URL),
	} {
		f.Completion = 100 * time.Millisecond
		begun := time.Now()
		if offered := completed(f, "job", "get", ""); len(offered) > 0 {
			t.Errorf("offered %q", offered)
		}
		if took := time.Since(begun); took > 30*time.Second { // a hang guard
			t.Errorf("it took %v", took)
		}
	}
}
