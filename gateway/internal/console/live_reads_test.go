package console_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// tenantAPI answers for any key, with what its queue is called; it counts what it is asked.
type tenantAPI struct {
	mu    sync.Mutex
	asked map[string]int // by key and route
	now   time.Time
	down  bool
	// began, where it is not nil, is told of each read of queues, which then waits for goOn.
	began chan context.Context
	goOn  chan struct{}
}

func (a *tenantAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	route := r.Method + " " + r.URL.Path
	a.mu.Lock()
	a.asked[key+" "+route]++
	nth, down := a.asked[key+" "+route], a.down
	a.mu.Unlock()
	switch {
	case route == "GET /v1/whoami":
		_, _ = fmt.Fprintf(w, `{"tenant":%q,"user":null,"scopes":["read","manage"],"plan":"p","key_id":"k"}`, key)
	case down:
		problem.New(problem.CoreUnavailable, "Core cannot be reached.").Write(w)
	case route == "GET /v1/queues":
		if a.began != nil {
			a.began <- r.Context()
			<-a.goOn
		}
		_, _ = fmt.Fprintf(w, `{"items":[{"name":"queue-of-%s-%d"}],"next_page_token":null}`, key, nth)
	case route == "GET /v1/limits":
		_, _ = io.WriteString(w, `{"policies":[],"caps":[]}`)
	default:
		_, _ = io.WriteString(w, emptyList)
	}
}

func (a *tenantAPI) count(what string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked[what]
}

func (a *tenantAPI) pass(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = a.now.Add(d)
}

// browser sends requests with the session of one key.
type browser struct {
	served http.Handler
	cookie string
}

func browserOf(t *testing.T, served http.Handler, key string) *browser {
	t.Helper()
	b := &browser{served: served}
	w := b.send(t.Context(), http.MethodPost, "/console/sign-in", url.Values{"key": {key}}, false)
	if w.Code != http.StatusSeeOther {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	set := w.Result().Cookies()[0]
	b.cookie = set.Name + "=" + set.Value
	return b
}

func (b *browser) send(ctx context.Context, method, path string, form url.Values, live bool) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Cookie", b.cookie)
	if live {
		r.Header.Set("Hx-Request", "true")
	}
	w := httptest.NewRecorder()
	b.served.ServeHTTP(w, r)
	return w
}

// queues asks for the page of queues, live or as a person does.
func (b *browser) queues(ctx context.Context, live bool) (int, string) {
	w := b.send(ctx, http.MethodGet, "/console/queues", nil, live)
	return w.Code, w.Body.String()
}

func serve(t *testing.T, a *tenantAPI) http.Handler {
	t.Helper()
	a.asked, a.now = map[string]int{}, noon
	made, err := console.New(console.Options{Secret: []byte(strings.Repeat("s", 32)), Now: func() time.Time {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.now
	}})
	if err != nil {
		t.Fatal(err)
	}
	return made.Handler(a)
}

func TestOpenPagesShareReads(t *testing.T) {
	t.Parallel()
	a := &tenantAPI{}
	served := serve(t, a)
	mine, theirs := browserOf(t, served, "mine"), browserOf(t, served, "theirs")
	expect := func(b *browser, live bool, text string) {
		t.Helper()
		if status, got := b.queues(t.Context(), live); status != http.StatusOK || !strings.Contains(got, text) {
			t.Fatalf("%d, without %s: %s", status, text, got)
		}
	}
	expect(mine, true, "queue-of-mine-1")
	expect(mine, true, "queue-of-mine-1")
	expect(theirs, true, "queue-of-theirs-1") // another key shares nothing
	expect(mine, false, "queue-of-mine-2")    // a person asks: it is read again
	expect(mine, true, "queue-of-mine-1")
	a.pass(3 * time.Second)
	expect(mine, true, "queue-of-mine-3")
	// The key itself is asked for each time: one that is revoked sees nothing more.
	if asked := a.count("mine GET /v1/whoami"); asked < 5 {
		t.Errorf("whoami was asked %d times", asked)
	}
}

func TestNoSharedReadIsOlderThanAForm(t *testing.T) {
	t.Parallel()
	a := &tenantAPI{}
	b := browserOf(t, serve(t, a), "mine")
	page := b.send(t.Context(), http.MethodGet, "/console/session", nil, false).Body.String()
	token := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(page)[1]
	for nth := 1; nth < 4; nth++ {
		if _, text := b.queues(t.Context(), true); !strings.Contains(text, fmt.Sprint("queue-of-mine-", nth)) {
			t.Fatalf("not read %d times: %s", nth, text)
		}
		if w := b.send(t.Context(), http.MethodPost, "/console/queues/mails", url.Values{"form": {token}, "do": {"pause"}}, false); w.Code != http.StatusSeeOther {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
}

func TestAReadOutlivesTheBrowserThatBeganIt(t *testing.T) {
	t.Parallel()
	a := &tenantAPI{began: make(chan context.Context), goOn: make(chan struct{})}
	b := browserOf(t, serve(t, a), "mine")
	leaves, leave := context.WithCancel(t.Context())
	type answer struct {
		status int
		text   string
	}
	done := make(chan answer)
	ask := func(ctx context.Context) {
		status, text := b.queues(ctx, true)
		done <- answer{status, text}
	}
	go ask(leaves)
	under := <-a.began
	leave()
	if got := <-done; got.status != http.StatusServiceUnavailable {
		t.Fatal(got)
	}
	if under.Err() != nil {
		t.Error("the read ended with the browser that began it")
	}
	a.goOn <- struct{}{}
	go func() {
		for range a.began { // where the answer came before the second browser asked, there is no second read
			a.goOn <- struct{}{}
		}
	}()
	defer close(a.began)
	go ask(t.Context())
	if got := <-done; got.status != http.StatusOK || !strings.Contains(got.text, "queue-of-mine-1") {
		t.Fatal(got)
	}
}

func TestRefusalsAreNotKept(t *testing.T) {
	t.Parallel()
	a := &tenantAPI{}
	b := browserOf(t, serve(t, a), "mine")
	for _, down := range []bool{true, false} {
		a.mu.Lock()
		a.down = down
		a.mu.Unlock()
		if status, text := b.queues(t.Context(), true); (status != http.StatusOK) != down {
			t.Fatalf("%d %s", status, text)
		}
	}
}
