package jobs_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
)

// fileOf is a file of n jobs in a queue.
func fileOf(f *commandtest.Fixture, queue string, n int) string {
	f.Helper()
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, `{"type":"mail","queue":%q,"payload":{"n":%d},"priority":%d}`+"\n\n", queue, i, i%10)
	}
	return fileWith(f, text.String())
}

func fileWith(f *commandtest.Fixture, text string) string {
	f.Helper()
	name := filepath.Join(f.TempDir(), "jobs.jsonl")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
	return name
}

func (s stored) ids(f *commandtest.Fixture) []string {
	f.Helper()
	return strings.Fields(f.Must("jobs", "--queue", string(s), "--limit", "0", "-o", "name"))
}

// stored is a queue.
type stored string

func TestSubmitAFile(t *testing.T) {
	f := commandtest.New(t)
	queue := f.Queue()
	file := fileOf(f, queue, 25)
	ids := strings.Fields(f.Must("submit", "--file", file, "--idempotency-key", "import-"+queue, "--batch", "10", "-o", "name"))
	if len(ids) != 25 || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != 25 {
		t.Fatalf("%d ids: %q", len(ids), ids)
	}
	if last := f.State(ids[24]); string(last.Payload) != `{"n":24}` || last.Priority != 4 {
		t.Errorf("the order is not the file's: %+v", last)
	}
	again := f.Want(0, []string{"25 of the lines had been submitted with this key before"}, "submit", "--file", file, "--idempotency-key", "import-"+queue, "--batch", "10", "-o", "name")
	if !slices.Equal(strings.Fields(again.Out), ids) {
		t.Errorf("again: %q, want %q", again.Out, ids)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if r := f.RunWith(f.Context(), string(text), "submit", "--file", "-"); r.Code != 0 || !strings.Contains(r.Out, "25 of 25 jobs accepted, 0 refused") {
		t.Errorf("standard input: %+v", r)
	}
	if n := len(stored(queue).ids(f)); n != 50 {
		t.Errorf("%d jobs are stored, want 50", n)
	}
}

func TestSubmitAFileWithWrongLines(t *testing.T) {
	f := commandtest.New(t)
	queue := f.Queue()
	good := fmt.Sprintf(`{"type":"mail","queue":%q}`+"\n", queue)
	for text, want := range map[string]string{
		good + `{"type":"mail","queu":"x"}`:      `line 2: unknown field "queu"`,
		good + "\n" + `{"type":"mail"`:           "line 3: is not whole JSON: each job must be on one line",
		good + `{"type":"mail","priority":"x"}`:  "line 2: priority: cannot be a string",
		good + `{"payload":1}`:                   "line 2: type: is missing",
		good + `["mail"]`:                        "line 2: must be a job, such as",
		good + `{"type":"mail"} {"type":"mail"}`: "line 2: has more than one JSON value",
		good + `{"type":"mail",}`:                "line 2: invalid character",
		"\n\n":                                   "has no jobs",
	} {
		f.Want(2, []string{want, "nothing was submitted"}, "submit", "--file", fileWith(f, text))
	}
	f.Want(2, []string{"no such file"}, "submit", "--file", filepath.Join(t.TempDir(), "none"))
	file := fileWith(f, good)
	f.Want(2, []string{"each line has its own"}, "submit", "mail", "--file", file)
	f.Want(2, []string{"--priority cannot be combined with --file"}, "submit", "--file", file, "--priority", "1")
	f.Want(2, []string{"--batch 0"}, "submit", "--file", file, "--batch", "0")
	f.Want(2, []string{"--idempotency-key: must have"}, "submit", "--file", file, "--idempotency-key", "")
	if n := len(stored(queue).ids(f)); n != 0 {
		t.Errorf("%d jobs are stored, want none", n)
	}
	// What only the server can refuse does not keep the others from being stored.
	file = fileWith(f, good+`{"type":"mail","queue":"not a name"}`+"\n"+good)
	f.Want(1, []string{"line 2: invalid_request: ", "2 of 3 jobs accepted, 1 refused"}, "submit", "--file", file)
	if n := len(stored(queue).ids(f)); n != 2 {
		t.Errorf("%d jobs are stored, want 2", n)
	}
}

// A full queue is waited for, and what was refused is sent again until there is room.
func TestSubmitAFileUnderACap(t *testing.T) {
	f := commandtest.New(t)
	queue := f.Queue()
	f.Must("queues", "set", queue, "--max-active", "5")
	done := make(chan commandtest.Result, 1)
	file := fileOf(f, queue, 12)
	go func() { done <- f.Run("submit", "--file", file, "-o", "jsonl") }()
	var r commandtest.Result
	f.Eventually("all jobs", func() bool {
		select {
		case r = <-done:
			return true
		default:
		}
		for id := range strings.FieldsSeq(f.Must("jobs", "--queue", queue, "--state", "queued", "-o", "name")) {
			f.Must("job", "cancel", id)
		}
		return false
	})
	if lines := strings.Count(r.Out, `"status":202`); r.Code != 0 || lines != 12 {
		t.Errorf("%d jobs: %+v", lines, r)
	}
}

// Under a cap that stays full the command says what it waits for, and ends after --wait-timeout with its own code.
func TestSubmitAFileUnderACapSaysThatItWaits(t *testing.T) {
	f := commandtest.New(t)
	queue := f.Queue()
	f.Must("queues", "set", queue, "--max-active", "2")
	r := f.Want(4, []string{"1 of the jobs wait until the server takes them", "queue_full", "--wait-timeout", "2 of 3 jobs were accepted"},
		"submit", "--file", fileOf(f, queue, 3), "--wait-timeout", "2s")
	if said := strings.Count(r.Err, "wait until"); said != 1 {
		t.Errorf("it is said %d times", said)
	}
}

// A run that loses its server says how to go on, and then nothing is stored twice, whether the server had stored the
// batch whose answer was lost or not.
func TestSubmitAFileGoesOn(t *testing.T) {
	f := commandtest.New(t)
	gateway, err := url.Parse(f.Ready.Gateway)
	if err != nil {
		t.Fatal(err)
	}
	for name, reaches := range map[string]bool{"the batch is lost": false, "its answer is lost": true} {
		queue := f.Queue()
		var batches atomic.Int64
		forward := httputil.NewSingleHostReverseProxy(gateway)
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if batches.Add(1) < 2 {
				forward.ServeHTTP(w, r)
				return
			}
			if reaches {
				forward.ServeHTTP(httptest.NewRecorder(), r)
			}
			panic(http.ErrAbortHandler)
		}))
		file := fileOf(f, queue, 25)
		r := f.With("FORGEQUEUE_URL", proxy.URL).Run("submit", "--file", file, "--batch", "10")
		proxy.Close()
		goOn := regexp.MustCompile(`To resume: forgequeue (submit --file \S+ --idempotency-key \S+ --batch 10)`).FindStringSubmatch(r.Err)
		if r.Code == 0 || goOn == nil || !strings.Contains(r.Err, "10 of 25 jobs were accepted") || !strings.Contains(r.Err, "lines 21 to 39") {
			t.Fatalf("%s: %+v", name, r)
		}
		before := 10
		if reaches {
			before = 20
		}
		if n := len(stored(queue).ids(f)); n != before {
			t.Errorf("%s: %d jobs are stored, want %d", name, n, before)
		}
		f.Want(0, []string{"25 of 25 jobs accepted", fmt.Sprintf("%d of the lines had been submitted", before)}, strings.Fields(goOn[1])...)
		if n := len(stored(queue).ids(f)); n != 25 {
			t.Errorf("%s: %d jobs are stored, want 25", name, n)
		}
	}
}
