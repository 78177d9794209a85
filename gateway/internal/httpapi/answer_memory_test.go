package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/gateway/internal/httpapi"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/memory"
)

const parentsPath = "/v1/jobs/" + jobID + "/parents"

// listener is where the door's API is served to clients for which the kernel keeps little.
func (d *door) listener() string {
	server := httptest.NewUnstartedServer(d.server.Handler())
	server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if err := c.(*net.TCPConn).SetWriteBuffer(64 << 10); err != nil {
			d.t.Error(err)
		}
		return ctx
	}
	server.Start()
	d.t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// ask sends a GET and leaves its answer unread.
func ask(t *testing.T, address, path, key string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path, key); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Callers who do not read large answers have their tenant's share of the memory, and no more: others of the tenant wait, and
// are refused, other tenants are served.
func TestATenantsAnswersHaveAShare(t *testing.T) {
	t.Parallel()
	const share, size, readers = 16 << 20, 1 << 20, 64
	bodies := request.NewBudget(4 * share)
	d := newDoor(t, func(o *httpapi.Options) { o.Bodies = bodies })
	page := map[string]any{"items": []string{strings.Repeat("x", size)}, "next_page_token": nil}
	d.core.On(hop.ListParents.Path, func(coretest.Item) coretest.Result { return coretest.Value(http.StatusOK, page) })
	key, address := d.key("read"), d.listener()
	other := d.keyWith(func(k *hop.KeyRecord) { k.Tenant, k.Scopes = jobID, []string{"read"} })
	var slow []net.Conn
	for range readers {
		slow = append(slow, ask(t, address, parentsPath, key))
	}
	reach(t, bodies, "unread answers count", func(used int64) bool { return used > share-3*size })
	if used := bodies.Used(); used > share+readers {
		t.Errorf("one tenant's answers have %d bytes, its share is %d", used, share)
	}
	if got := d.do("GET", parentsPath, other, ""); got.status != http.StatusOK || len(got.body) < size {
		t.Errorf("another tenant: %d, %d bytes", got.status, len(got.body))
	}
	p := d.do("GET", parentsPath, key, "").refused(t, 503, problem.Overloaded)
	if !strings.Contains(p.Detail, "Your tenant's requests") {
		t.Errorf("%+v", p)
	}
	if got := d.do("POST", "/v1/jobs", other, `{"type":"a"}`); got.status != http.StatusForbidden {
		t.Errorf("another tenant's submit: %d %s", got.status, got.body)
	}
	served := 0
	for _, conn := range slow { // each is answered; those that waited for too long with a problem
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode == http.StatusOK && len(text) > size {
			served++
		}
	}
	if served < share/size/2-1 {
		t.Errorf("%d were served", served)
	}
	reach(t, bodies, "all have been read", func(used int64) bool { return used == 0 })
	if got := d.do("GET", parentsPath, key, ""); got.status != http.StatusOK {
		t.Errorf("afterwards: %d %s", got.status, got.body)
	}
}

// What is leased cannot be refused any more: a claim's answer counts in any case, and the next claims wait.
func TestAClaimsAnswerIsNotRefused(t *testing.T) {
	t.Parallel()
	bodies := request.NewBudget(16 << 20) // a share of 4 MiB
	d := newDoor(t, func(o *httpapi.Options) { o.Bodies = bodies })
	d.core.On(hop.ClaimJobs.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(http.StatusOK, map[string]any{"jobs": []string{strings.Repeat("x", 2<<20)}})
	})
	d.core.On(hop.ListParents.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(http.StatusOK, map[string]any{"items": []string{strings.Repeat("x", 1<<20)}})
	})
	key, address := d.key("read", "work"), d.listener()
	ask(t, address, parentsPath, key)
	reach(t, bodies, "an unread page counts", func(used int64) bool { return used > 2<<20 })
	if got := d.do("POST", "/v1/claims", key, `{"worker_id":"w","queues":["q"]}`); got.status != http.StatusOK || len(got.body) < 2<<20 {
		t.Errorf("a claim: %d, %.200s", got.status, got.body)
	}
}

// Where answers of the tenant wait for memory, core is not asked for more.
func TestAReadWaitsBeforeCoreIsAsked(t *testing.T) {
	t.Parallel()
	bodies := request.NewBudget(4 << 20)
	d := newDoor(t, func(o *httpapi.Options) { o.Bodies = bodies })
	d.core.On(hop.ListParents.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(http.StatusOK, map[string]any{"items": []string{}})
	})
	key := d.key("read")
	large, waiting, came := bodies.Hold(tenantID, false), bodies.Hold(tenantID, false), make(chan error, 1)
	if err := large.Take(t.Context(), 2<<20, 0); err != nil {
		t.Fatal(err)
	}
	go func() { came <- waiting.Take(t.Context(), 1<<20, hang) }()
	for tried := error(nil); !errors.Is(tried, memory.ErrShare); { // who comes now waits behind it
		probe := bodies.Hold(tenantID, false)
		tried = probe.Take(t.Context(), 1, 0)
		probe.Release()
	}
	d.do("GET", parentsPath, key, "").refused(t, 503, problem.Overloaded)
	if sent := len(d.core.Requests(hop.ListParents.Path)); sent != 0 {
		t.Errorf("core was asked %d times", sent)
	}
	large.Release()
	if err := <-came; err != nil {
		t.Error(err)
	}
	waiting.Release()
	if got := d.do("GET", parentsPath, key, ""); got.status != http.StatusOK {
		t.Errorf("afterwards: %d %s", got.status, got.body)
	}
}

// What other tenants hold, all of it, refuses a tenant's large answers, not its small ones.
func TestSmallAnswersNeedNoMemory(t *testing.T) {
	t.Parallel()
	bodies := request.NewBudget(4 << 20)
	d := newDoor(t, func(o *httpapi.Options) { o.Bodies = bodies })
	size := 10
	d.core.On(hop.ListParents.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(http.StatusOK, map[string]any{"items": []string{strings.Repeat("x", size)}})
	})
	key := d.key("read")
	bodies.Hold("others", false).Force(4 << 20)
	if got := d.do("GET", parentsPath, key, ""); got.status != http.StatusOK {
		t.Errorf("a small answer: %d %s", got.status, got.body)
	}
	size = 1 << 20
	p := d.do("GET", parentsPath, key, "").refused(t, 503, problem.Overloaded)
	if !strings.HasPrefix(p.Detail, "The memory") {
		t.Errorf("%+v", p)
	}
}
