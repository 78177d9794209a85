package httpapi_test

import (
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/httpapi"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/memory"
)

// half sends a request whose body stops after some bytes.
func (d *door) half(path, key string, declared int, sent string) net.Conn {
	d.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, key, declared, sent); err != nil {
		d.t.Fatal(err)
	}
	return conn
}

// reach waits until the budget's use is as it should be.
func reach(t *testing.T, bodies *memory.Budget, what string, is func(used int64) bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(bodies.Used()); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: %d bytes are held", what, bodies.Used())
		}
	}
}

// A length that is only declared takes no memory. Not parallel: it looks at what
// the process has allocated.
func TestDeclaredBodiesTakeNoMemory(t *testing.T) { //nolint:paralleltest // see above
	bodies := request.NewBudget(1 << 30)
	d := newDoor(t, func(o *httpapi.Options) { o.Bodies = bodies })
	key := d.key("submit")
	const many = 16
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range many {
		d.half("/v1/jobs/batch", key, api.MaxBatchBody, "{")
		reach(t, bodies, "a byte has come", func(used int64) bool { return used > int64(i)*(4<<10) })
	}
	if used := bodies.Used(); used > many*(64<<10) {
		t.Errorf("%d bytes are held for %d bytes", used, many)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > many*(1<<20) {
		t.Errorf("%d requests without a body took %d MiB", many, took>>20)
	}
}

// A tenant's bodies are refused beyond its share, while they come, and no other
// tenant's; when they are gone there is room again.
func TestATenantsBodiesHaveAShare(t *testing.T) {
	t.Parallel()
	bodies := request.NewBudget(1 << 20) // a share of 64 KiB of text
	d := newDoor(t, func(o *httpapi.Options) { o.Bodies = bodies })
	d.accept()
	key := d.key("submit")
	other := d.keyWith(func(k *hop.KeyRecord) { k.Tenant, k.Scopes = jobID, []string{"submit"} })
	job := `{"type":"a","payload":"` + strings.Repeat("x", 40<<10) + `"}`
	slow := d.half("/v1/jobs", key, 100<<10, job[:30<<10])
	reach(t, bodies, "half a body has come", func(used int64) bool { return used >= 4*(30<<10) })

	p := d.do("POST", "/v1/jobs", key, job).refused(t, 503, problem.Overloaded)
	if p.RetryAfterMS == nil || !strings.Contains(p.Detail, "Your tenant") {
		t.Errorf("%+v", p)
	}
	if got := d.do("POST", "/v1/jobs", other, job); got.status != http.StatusAccepted {
		t.Errorf("another tenant: %d %s", got.status, got.body)
	}
	if got := d.metric("forgequeue_body_refusals_total"); got["reason=share"] != 1 || got["reason=full"] != 0 {
		t.Errorf("%v", got)
	}
	_ = slow.Close()
	reach(t, bodies, "all have gone", func(used int64) bool { return used == 0 })
	if got := d.do("POST", "/v1/jobs", key, job); got.status != http.StatusAccepted {
		t.Errorf("afterwards: %d %s", got.status, got.body)
	}
}

// Submits cannot use all of the memory: what keeps or ends a lease gets through.
func TestOutcomesPassWhereSubmitsAreFull(t *testing.T) {
	t.Parallel()
	bodies := request.NewBudget(1 << 20) // 838 KiB of it for submits
	d := newDoor(t, func(o *httpapi.Options) { o.Bodies = bodies })
	d.finishing()
	for i, size := range []int{60 << 10, 60 << 10, 60 << 10, 20 << 10} {
		tenant := fmt.Sprintf("%s%d", jobID[:len(jobID)-1], i)
		key := d.keyWith(func(k *hop.KeyRecord) { k.Tenant, k.Scopes = tenant, []string{"submit"} })
		before := bodies.Used()
		d.half("/v1/jobs", key, size, strings.Repeat(" ", size-1))
		reach(t, bodies, "a body has come", func(used int64) bool { return used >= before+4*int64(size) })
	}
	long := strings.Repeat(" ", 12<<10)
	d.do("POST", "/v1/jobs", d.key("submit"), long+`{"type":"a"}`).refused(t, 503, problem.Overloaded)
	work := d.key("work")
	if got := d.do("POST", "/v1/jobs/"+jobID+"/complete", work, long+`{"lease_token":"good"}`); got.status != http.StatusOK {
		t.Errorf("an outcome: %d %s", got.status, got.body)
	}
}

// What counts for a submit counts while core has it, and no longer while its caller waits for the
// job's end.
func TestABodyCountsUntilItIsPassedOn(t *testing.T) {
	t.Parallel()
	bodies := request.NewBudget(1 << 30)
	d := newDoor(t, func(o *httpapi.Options) { o.Bodies = bodies })
	asked, answer := make(chan int64), make(chan struct{})
	d.core.Raw(hop.SubmitJobs.Path, func(w http.ResponseWriter, _ *http.Request) {
		asked <- bodies.Used()
		<-answer
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	body := `{"type":"a","payload":"` + strings.Repeat("x", 40<<10) + `"}`
	go func() {
		if used := <-asked; used < 4*int64(len(body)) {
			t.Errorf("%d bytes count while core has the job", used)
		}
		close(answer)
	}()
	d.do("POST", "/v1/jobs", d.key("submit"), body)
	reach(t, bodies, "after the answer", func(used int64) bool { return used == 0 })
}
