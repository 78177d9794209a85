package cellclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func client(t *testing.T, url, secret string) *cellclient.Cell {
	t.Helper()
	c, err := cellclient.New(cellclient.Options{URL: url, Secret: []byte(secret), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// try is a call of an operation, as these tests make it: with another effect, request and answer than its own.
type try struct {
	hop.Operation
	how cellclient.How
}

func as(op hop.Operation, effect hop.Effect) try {
	op.Effect = effect
	return try{Operation: op}
}

func (t try) Parked() try { return t.by(cellclient.How{Parked: true}) }

func (t try) Shared(group string) try { return t.by(cellclient.How{Shared: true, Group: group}) }

func (t try) by(how cellclient.How) try {
	t.how = how
	return t
}

func get(ctx context.Context, c *cellclient.Cell, op try) (hop.Result[api.Whoami], error) {
	return cellclient.Call(ctx, c, hop.Op[hop.ID, api.Whoami]{Operation: op.Operation}, op.how, hop.Item[hop.ID]{
		Principal: hop.Principal{Kind: hop.PrincipalTenant, Tenant: "t1"},
		RequestID: "r1", CorrelationID: "c1",
		Request: hop.ID{ID: "<j&1>"},
	})
}

func TestCallIsSignedAndComplete(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	core.On(hop.GetJob.Path, func(coretest.Item) coretest.Result { return coretest.Value(200, api.Whoami{KeyID: "k"}) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	result, err := get(ctx, client(t, core.URL, coretest.Secret), as(hop.GetJob.Operation, hop.Reads))
	if err != nil || result.Status != 200 || result.Value == nil || result.Value.KeyID != "k" {
		t.Fatalf("%+v, %v", result, err)
	}
	request := core.Requests(hop.GetJob.Path)[0]
	item := request.Items[0]
	if item.Principal.Tenant != "t1" || item.RequestID != "r1" || item.CorrelationID != "c1" || string(item.Request) != `{"id":"<j&1>"}` {
		t.Errorf("item %+v, request %s", item, item.Request)
	}
	left, err := strconv.Atoi(request.Header.Get(hop.TimeoutHeader))
	if err != nil || left < 1 || left > 60_000 {
		t.Errorf("%s: %q", hop.TimeoutHeader, request.Header.Get(hop.TimeoutHeader))
	}
	allowed := map[string]bool{
		"Content-Type": true, "Content-Length": true, "User-Agent": true,
		"Forgequeue-Assertion": true, hop.TimeoutHeader: true, hop.OwnerHeader: true,
	}
	for name := range request.Header {
		if !allowed[name] {
			t.Errorf("the hop sent %s", name)
		}
	}
}

func TestRefusalOfTheItemIsNoError(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	core.On(hop.GetJob.Path, func(coretest.Item) coretest.Result { return coretest.Refuse(problem.NotFound, "none") })
	result, err := get(t.Context(), client(t, core.URL, coretest.Secret), as(hop.GetJob.Operation, hop.Reads))
	if err != nil || result.Problem == nil || result.Problem.Code != problem.NotFound {
		t.Fatalf("%+v, %v", result, err)
	}
}

// failing is a TCP server that takes each connection and does something else
// with it than answering.
func failing(t *testing.T, do func(n int64, connection net.Conn)) (string, *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connections := new(atomic.Int64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			do(connections.Add(1), connection)
			_ = connection.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return "http://" + listener.Addr().String(), connections
}

// readRequest reads a request from the wire, so that its answer can be lost.
func readRequest(connection net.Conn) {
	_ = connection.SetReadDeadline(time.Now().Add(10 * time.Second))
	var text strings.Builder
	buffer := make([]byte, 4096)
	for !strings.Contains(text.String(), `}}]}`) {
		n, err := connection.Read(buffer)
		if err != nil {
			return
		}
		text.Write(buffer[:n])
	}
}

func TestLostReplies(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		op          try
		want        error
		connections int64
	}{
		{"a write is not repeated, and nobody knows", as(hop.ReportOutcomes.Operation, hop.Writes), cellclient.ErrOutcomeUnknown, 1},
		{"a read is repeated once, and has cost nothing", as(hop.GetJob.Operation, hop.Reads), cellclient.ErrUnavailable, 2},
		{"a keyed write is repeated once", as(hop.SubmitJobs.Operation, hop.Keyed), cellclient.ErrOutcomeUnknown, 2},
		{"an outcome is repeated once", as(hop.ReportOutcomes.Operation, hop.Repeatable), cellclient.ErrOutcomeUnknown, 2},
		{"a parked claim is not repeated", as(hop.ClaimJobs.Operation, hop.Writes).Parked(), cellclient.ErrOutcomeUnknown, 1},
		{"a parked read is not repeated", as(hop.WaitForJob.Operation, hop.Reads).Parked(), cellclient.ErrUnavailable, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url, connections := failing(t, func(_ int64, connection net.Conn) { readRequest(connection) })
			_, err := get(t.Context(), client(t, url, coretest.Secret), test.op)
			if !errors.Is(err, test.want) || connections.Load() != test.connections {
				t.Fatalf("%v after %d connections", err, connections.Load())
			}
		})
	}
}

func TestNothingWrittenIsUnavailable(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + listener.Addr().String()
	_ = listener.Close()
	for _, op := range []try{as(hop.ReportOutcomes.Operation, hop.Writes), as(hop.GetJob.Operation, hop.Reads), as(hop.SubmitJobs.Operation, hop.Keyed)} {
		if _, err := get(t.Context(), client(t, url, coretest.Secret), op); !errors.Is(err, cellclient.ErrUnavailable) {
			t.Errorf("%v", err)
		}
	}
}

// A core that closes its connections after each answer, as one that drains does,
// costs no call.
func TestConnectionsThatCloseCostNoCall(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	core.Raw(hop.ReportOutcomes.Path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, `{"results":[{"status":200,"value":{}}]}`)
	})
	c := client(t, core.URL, coretest.Secret)
	for range 20 {
		if _, err := get(t.Context(), c, as(hop.ReportOutcomes.Operation, hop.Writes)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTimeoutAfterSending(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	release := make(chan struct{})
	core.Raw(hop.SubmitJobs.Path, func(_ http.ResponseWriter, _ *http.Request) { <-release })
	defer close(release)
	c := client(t, core.URL, coretest.Secret)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // in which it is sent
	defer cancel()
	_, err := get(ctx, c, as(hop.SubmitJobs.Operation, hop.Keyed))
	if !errors.Is(err, cellclient.ErrOutcomeUnknown) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v", err)
	}
	if n := len(core.Requests(hop.SubmitJobs.Path)); n != 1 {
		t.Fatalf("sent %d times, though the deadline had passed", n)
	}
}

func TestClockOffsetIsLearned(t *testing.T) {
	t.Parallel()
	for _, offset := range []time.Duration{time.Hour, -time.Hour} {
		core := coretest.New(t)
		core.Now = func() time.Time { return time.Now().Add(offset) }
		core.On(hop.ReportOutcomes.Path, func(coretest.Item) coretest.Result { return coretest.Value(200, api.Whoami{}) })
		c := client(t, core.URL, coretest.Secret)
		for range 3 {
			if _, err := get(t.Context(), c, as(hop.ReportOutcomes.Operation, hop.Writes)); err != nil {
				t.Fatalf("offset %v: %v", offset, err)
			}
		}
		if n := len(core.Requests(hop.ReportOutcomes.Path)); n != 3 {
			t.Errorf("core did %d calls, want 3", n)
		}
	}
}

// A core whose clock cannot be followed must not be asked for ever.
func TestClockIsLearnedAFewTimesACall(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	var asked atomic.Int64
	core.Now = func() time.Time { return time.Now().Add(time.Duration(asked.Add(1)) * time.Hour) }
	_, err := get(t.Context(), client(t, core.URL, coretest.Secret), as(hop.GetJob.Operation, hop.Reads))
	if !errors.Is(err, cellclient.ErrRefusesUs) || asked.Load() > 18 {
		t.Fatalf("%v after %d looks at the clock", err, asked.Load())
	}
}

func TestOtherSecretIsNamed(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	_, err := get(t.Context(), client(t, core.URL, strings.Repeat("x", 32)), as(hop.SubmitJobs.Operation, hop.Writes))
	if !errors.Is(err, cellclient.ErrRefusesUs) || !strings.Contains(err.Error(), "FORGEQUEUE_HOP_SECRET") || core.Unsigned() != 1 {
		t.Fatalf("%v, %d unsigned", err, core.Unsigned())
	}
}

func TestRefusalsOfTheCall(t *testing.T) {
	t.Parallel()
	told := func(status int, code problem.Code) string {
		p := problem.New(code, "why").WithRetryAfter(1500 * time.Millisecond)
		p.Status, p.Instance, p.RequestID = status, "/internal/v1/x", "core's"
		text, _ := json.Marshal(p)
		return string(text)
	}
	tests := []struct {
		name   string
		status int
		body   string
		want   problem.Code // of the problem passed on
		err    error        // or what the error is
	}{
		{"overloaded", 503, told(503, problem.Overloaded), problem.Overloaded, nil},
		{"too large", 413, told(413, problem.PayloadTooLarge), problem.PayloadTooLarge, nil},
		{"our own fault", 400, told(400, problem.InvalidJSON), "", cellclient.ErrContract},
		{"no such call", 404, told(404, problem.NotFound), "", cellclient.ErrContract},
		{"a proxy's page", 502, "<html>bad gateway</html>", "", cellclient.ErrOutcomeUnknown},
		{"a made-up code", 503, told(503, "made_up"), "", cellclient.ErrOutcomeUnknown},
		{"no results", 200, `{"results":[]}`, "", cellclient.ErrOutcomeUnknown},
		{"two results", 200, `{"results":[{"status":200},{"status":200}]}`, "", cellclient.ErrOutcomeUnknown},
		{"no JSON", 200, `hello`, "", cellclient.ErrOutcomeUnknown},
		{"no status", 200, `{"results":[{}]}`, "", cellclient.ErrContract},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			core := coretest.New(t)
			core.Raw(hop.SubmitJobs.Path, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			})
			_, err := get(t.Context(), client(t, core.URL, coretest.Secret), as(hop.SubmitJobs.Operation, hop.Writes))
			p, isProblem := problem.From(err)
			if test.want == "" {
				if isProblem || !errors.Is(err, test.err) {
					t.Fatalf("%v", err)
				}
				return
			}
			if !isProblem || p.Code != test.want || p.RetryAfterMS == nil || *p.RetryAfterMS != 1500 || p.Instance != "" || p.RequestID != "" {
				t.Fatalf("%+v", p)
			}
		})
	}
}

func TestLookUpKey(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	core.AddKey(hop.KeyRecord{KeyID: "abcdefghijkl", Kind: hop.PrincipalTenant})
	c := client(t, core.URL, coretest.Secret)
	if key, found, err := c.LookUpKey(t.Context(), "abcdefghijkl"); err != nil || !found || key.KeyID != "abcdefghijkl" {
		t.Errorf("%+v, %v, %v", key, found, err)
	}
	if _, found, err := c.LookUpKey(t.Context(), "unknown"); err != nil || found {
		t.Errorf("unknown: %v, %v", found, err)
	}
	core.On(hop.LookUpKey.Path, func(coretest.Item) coretest.Result { return coretest.Refuse(problem.Overloaded, "") })
	if _, found, err := c.LookUpKey(t.Context(), "abcdefghijkl"); err == nil || found {
		t.Errorf("overloaded: %v, %v", found, err)
	}
	if status, err := c.Ready(t.Context()); err != nil || status != "ok" {
		t.Errorf("ready: %q, %v", status, err)
	}
	core.On(hop.GetReadiness.Path, func(coretest.Item) coretest.Result { return coretest.Refuse(problem.Overloaded, "") })
	if _, err := c.Ready(t.Context()); err == nil {
		t.Error("an overloaded core is ready")
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	good := strings.Repeat("s", 32)
	for _, given := range [][2]string{{"", good}, {"core:8081", good}, {"http://u:p@core", good}, {"http://core/cells/home", good[1:]}} {
		if _, err := cellclient.New(cellclient.Options{URL: given[0], Secret: []byte(given[1])}); err == nil || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%q with a secret of %d bytes: %v", given[0], len(given[1]), err)
		}
	}
}
