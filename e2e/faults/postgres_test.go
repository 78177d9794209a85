package faults_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forgequeue/forgequeue/e2e/faultproxy"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/client"
)

// PostgreSQL is killed under load, and started again by the `up` whose child it
// is. Core and gateway are processes beside it.
func TestPostgresCrashesUnderLoad(t *testing.T) {
	t.Parallel()
	up := stack.Up(t, stack.Folder(t), "--demo=false")
	c := stack.NewCluster(t, stack.ClusterOptions{DatabaseURL: up.SecondDatabase(t), RedisURL: up.Redis.URL})
	l := newLoad(t, c, 2*time.Second)
	stopWork := l.work(4, 10*time.Millisecond)
	stopSubmits := l.produce(8, 20_000, 10*time.Millisecond)
	crashes := lane(2, 50)
	var slowest time.Duration
	for i := range crashes {
		if i > 0 { // `up` gives up on a child that ends five times in a minute
			pace(t.Context(), time.Duration(lane(0, 15))*time.Second)
		}
		pace(t.Context(), moment(time.Second, 2*time.Second))
		killed := time.Now()
		l.crash(up)
		slowest = max(slowest, time.Since(killed))
	}
	stopSubmits()
	l.drain(90 * time.Second)
	stopWork()
	if h, _ := l.check(); h.Count(disturbed) == 0 {
		t.Error("no crash got in the way of a request")
	}
	t.Logf("%d crashes, at most %v until the first accepted submit", crashes, slowest.Round(time.Millisecond))
}

// trySubmit tries once.
func (l *load) trySubmit(c *client.Client) bool {
	_, err := c.Submit(l.t.Context(), l.request())
	return err == nil
}

// postmaster gives the process of up's PostgreSQL, 0 while there is none.
func postmaster(t *testing.T, up *stack.Stack) int {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(up.Data, "postgres", "postmaster.pid"))
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil || !stack.Alive(pid) {
		return 0
	}
	return pid
}

// PostgreSQL commits and its answer never comes: of submits, claims, outcomes and
// background duties alike.
func TestCommitAnswersLost(t *testing.T) {
	t.Parallel()
	faults := faultproxy.NewFaults(1)
	c := stack.NewCluster(t, stack.ClusterOptions{Through: func(databaseURL string) string { return postgresProxy(t, databaseURL, faults) }})
	l := newLoad(t, c, 2*time.Second)
	stopWork := l.work(4, 0)
	stopSubmits := l.produce(8, 100_000, 5*time.Millisecond)
	wanted := lane(60, 10_000)
	faults.Lose(0.2, wanted)
	stack.Eventually(t, time.Duration(lane(60, 300))*time.Second, "answers were lost", func() bool { return faults.Total() >= wanted })
	stopSubmits()
	l.drain(90 * time.Second)
	stopWork()
	h, _ := l.check()
	lost := faults.Lost()
	if lost["COMMIT"] == 0 || h.Count(unknown) == 0 {
		t.Errorf("lost %v, %d requests whose outcome was unknown", lost, h.Count(unknown))
	}
	t.Logf("lost %v of %v", lost, faults.Seen())
}

// postgresProxy gives a database's URL through a proxy that loses answers.
func postgresProxy(t *testing.T, databaseURL string, faults *faultproxy.Faults) string {
	t.Helper()
	given, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	network, address := pgconn.NetworkAddress(given.Host, given.Port)
	proxy, err := faultproxy.Postgres(network, address, faults)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	parameters := url.Values{"sslmode": {"disable"}}
	for name, value := range given.RuntimeParams {
		parameters.Set(name, value)
	}
	through := url.URL{
		Scheme: "postgres", User: url.UserPassword(given.User, given.Password), Host: proxy.Address(), Path: given.Database,
		RawQuery: parameters.Encode(),
	}
	return through.String()
}

// plainSubmit submits once, without a key and without retries, and gives the
// status; 0 where no answer came.
func (l *load) plainSubmit(c *http.Client) int {
	body, err := json.Marshal(l.request())
	if err != nil {
		l.t.Error(err)
		return 0
	}
	request, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost, l.urls[0]+"/v1/jobs", bytes.NewReader(body))
	if err != nil {
		l.t.Error(err)
		return 0
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+l.tenant.Key)
	response, err := c.Do(request)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}
