package faults_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
)

// hang is when an answer no longer counts as one: five times what is usual on a
// busy machine.
const hang = 15 * time.Second

// Whatever comes in, the answer is a refusal or a success: never a 5xx, never
// silence, and the next honest request is served.
func TestHostileInput(t *testing.T) {
	t.Parallel()
	c := stack.NewCluster(t, stack.ClusterOptions{})
	tenant := c.NewTenant(t, "hostile")
	h := &hostile{t: t, url: c.Gateways[0].URL, key: tenant.Key, client: &http.Client{
		Timeout:       stack.Patience(hang),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	t.Run("bodies", h.bodies)
	t.Run("changed bytes", h.changedBytes)
	t.Run("ids, cursors, keys", h.words)
	t.Run("smuggling", func(t *testing.T) {
		h.smuggling(t)
		if made := stack.Query[int](t.Context(), t, c.DatabaseURL, `SELECT count(*)::integer FROM jobs WHERE type = 'smuggled'`); len(made) != 1 || made[0] != 0 {
			t.Errorf("smuggled requests were served: %v", made)
		}
	})
	t.Run("half a request", h.halves)
	if status := h.send(t, http.MethodPost, "/v1/jobs", `{"type":"honest"}`, nil); status != http.StatusAccepted {
		t.Errorf("afterwards an honest request gets %d", status)
	}
	t.Logf("%d requests", h.sent)
}

type hostile struct {
	t        *testing.T
	url, key string
	client   *http.Client
	sent     int
}

// send sends a well-formed HTTP request and judges the answer.
func (h *hostile) send(t *testing.T, method, path, body string, headers map[string]string) int {
	t.Helper()
	h.sent++
	request, err := http.NewRequestWithContext(t.Context(), method, h.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	path, request.URL.RawQuery, _ = strings.Cut(path, "?")
	request.URL.Opaque = path // as it is, escapes and all
	request.Header.Set("Authorization", "Bearer "+h.key)
	request.Header.Set("Content-Type", "application/json")
	for name, value := range headers {
		request.Header[name] = []string{value}
	}
	response, err := h.client.Do(request)
	if err != nil {
		if strings.Contains(err.Error(), "invalid") { // our own client refuses to send it
			return 0
		}
		t.Errorf("%s %.80s %.60q %.80v: %v", method, path, body, headers, err)
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 500 {
		t.Errorf("%s %.80s %.60q %.80v: %d %s %v", method, path, body, headers, response.StatusCode, answer, err)
	}
	malformed := path != "" && strings.Contains(path, "%") && string(answer) == "400 Bad Request" // net/http itself, before any handler
	if response.StatusCode >= 400 && !malformed && !strings.HasPrefix(response.Header.Get("Content-Type"), "application/problem+json") {
		t.Errorf("%s %.80s %.60q: %d is no problem document: %.80s", method, path, body, response.StatusCode, answer)
	}
	return response.StatusCode
}

const someJob = "01890000-0000-7000-8000-000000000000"

var bodied = []struct{ method, path string }{
	{http.MethodPost, "/v1/jobs"},
	{http.MethodPost, "/v1/jobs/batch"},
	{http.MethodPost, "/v1/claims"},
	{http.MethodPost, "/v1/workers"},
	{http.MethodPost, "/v1/workers/w/heartbeat"},
	{http.MethodPost, "/v1/outcomes"},
	{http.MethodPost, "/v1/jobs/" + someJob + "/complete"},
	{http.MethodPost, "/v1/jobs/" + someJob + "/fail"},
	{http.MethodPut, "/v1/queues/hostile"},
	{http.MethodPost, "/v1/dead-letters/redrive"},
	{http.MethodPost, "/v1/dead-letters/discard"},
	{http.MethodPost, "/v1/redrives/" + someJob + "/cancel"},
}

func (h *hostile) bodies(t *testing.T) {
	for name, body := range hostileBodies() {
		for _, route := range bodied {
			if status := h.send(t, route.method, route.path, body, nil); status == 0 {
				t.Errorf("%s to %s: no answer", name, route.path)
			}
		}
		h.send(t, http.MethodPost, "/v1/jobs", body, map[string]string{"Idempotency-Key": "one-for-all"})
	}
	for _, media := range []string{"", "text/plain", "application/json; charset=utf-16", "application/x-www-form-urlencoded", "multipart/form-data", "\u2603"} {
		h.send(t, http.MethodPost, "/v1/jobs", `{"type":"hostile"}`, map[string]string{"Content-Type": media})
	}
	h.send(t, http.MethodPost, "/v1/jobs", "\x1f\x8b\x08\x00\x00", map[string]string{"Content-Encoding": "gzip"})
}

// changedBytes sends an honest body with a few bytes changed, the same each time.
func (h *hostile) changedBytes(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 0))
	honest := `{"type":"hostile","queue":"hostile","payload":{"a":[1,2.5e3,"\u00e4\ud83d\ude00"]},"priority":3,"delay_ms":1000,` +
		`"max_attempts":2,"tags":["x"],"user":"bob","metadata":{"k":"v"},"dedupe_key":"d","retry":{"base_ms":1,"cap_ms":2,"jitter":0.5}}`
	interesting := []byte("\x00\x1f\"\\{}[]:,0-9eE.\x7f\x80\xff")
	for range lane(250, 20_000) {
		body := []byte(honest)
		for range 1 + random.IntN(3) {
			at := random.IntN(len(body))
			switch random.IntN(3) {
			case 0:
				body[at] = interesting[random.IntN(len(interesting))]
			case 1:
				body = slices.Delete(body, at, at+1)
			default:
				body = slices.Insert(body, at, interesting[random.IntN(len(interesting))])
			}
		}
		h.send(t, http.MethodPost, "/v1/jobs", string(body), nil)
	}
}

func (h *hostile) words(t *testing.T) {
	for _, word := range hostileWords() {
		for _, path := range []string{
			"/v1/jobs/", "/v1/queues/", "/v1/" + "", "/v1/jobs?page_token=", "/v1/jobs?page_size=", "/v1/jobs?state=", "/v1/jobs?metadata.",
			"/v1/redrives/", "/v1/redrives?page_token=", "/v1/audit?page_token=", "/v1/audit?object=", "/v1/audit?after=",
			"/v1/dead-letters/groups?fingerprint=", "/v1/dead-letters/groups?page_size=", "/v1/dead-letters/groups?",
			"/v1/jobs?created_after=", "/v1/jobs?", "/v1/dead-letters?page_token=", "/v1/workers?page_token=", "/v1/queues?page_token=",
		} {
			h.send(t, http.MethodGet, path+word, "", nil)
		}
		for _, rest := range []string{"/attempts", "/../../../admin/tenants"} {
			h.send(t, http.MethodGet, "/v1/jobs/"+word+rest, "", nil)
		}
		h.send(t, http.MethodPost, "/v1/jobs/"+word+"/complete", `{"lease_token":"`+strings.Repeat("A", 75)+`"}`, nil)
		h.send(t, http.MethodPost, "/v1/jobs/"+someJob+"/complete", fmt.Sprintf(`{"lease_token":%q}`, word), nil)
		h.send(t, http.MethodPost, "/v1/workers/"+word+"/heartbeat", `{}`, nil)
		h.send(t, http.MethodPost, "/v1/jobs/"+word+"/cancel", "", nil)
		h.send(t, http.MethodPost, "/v1/redrives/"+word+"/cancel", "", nil)
		for _, member := range []string{"queue", "type", "reason", "fingerprint", "after", "before"} {
			h.send(t, http.MethodPost, "/v1/dead-letters/redrive", fmt.Sprintf(`{"filter":{%q:%q},"dry_run":true}`, member, word), nil)
		}
		for _, name := range []string{"Idempotency-Key", "Prefer", "If-None-Match", "X-Request-Id", "Traceparent", "X-Correlation-Id"} {
			h.send(t, http.MethodPost, "/v1/jobs", `{"type":"hostile"}`, map[string]string{name: word})
		}
		for _, value := range []string{word, "Bearer " + word, "Bearer fq_live_" + word, "Basic " + word, "Bearer " + h.key + word} {
			h.send(t, http.MethodGet, "/v1/whoami", "", map[string]string{"Authorization": value})
		}
	}
	for _, method := range []string{"TRACE", "CONNECTED", "PROPFIND", "get", http.MethodOptions, http.MethodDelete, http.MethodPatch} {
		h.send(t, method, "/v1/jobs", "", nil)
	}
}

// smuggling goes over bare sockets: each ends with a refusal, or with one answer to
// one request and an end.
func (h *hostile) smuggling(t *testing.T) {
	host := strings.TrimPrefix(h.url, "http://")
	set := smuggled(host, h.key)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		h.sent++
		statuses, err := rawExchange(t, host, set[name])
		if err != nil {
			t.Errorf("%s: %v, after %v", name, err, statuses)
			continue
		}
		// 501 is net/http's word for a transfer coding that it does not know; there is
		// no other for it (RFC 9112, section 6.1).
		for _, status := range statuses {
			if status >= 500 && status != http.StatusNotImplemented && status != http.StatusHTTPVersionNotSupported {
				t.Errorf("%s: %v", name, statuses)
			}
		}
	}
}

// halves leaves requests unfinished: the connection is ours to end, and the
// service goes on.
func (h *hostile) halves(t *testing.T) {
	host := strings.TrimPrefix(h.url, "http://")
	whole := "POST /v1/jobs HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: Bearer " + h.key +
		"\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"type\":\"half\""
	for cut := 1; cut < len(whole); cut += 7 {
		h.sent++
		conn, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, whole[:cut])
		_ = conn.Close()
	}
}

// rawExchange sends text and reads every answer until the server closes. A server
// that waits for another request, or for the rest of one, is left after a while;
// one that does not even answer is an error.
func rawExchange(t *testing.T, host, text string) (statuses []int, err error) {
	t.Helper()
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(stack.Patience(hang))); err != nil {
		return nil, err
	}
	go func() { _, _ = io.WriteString(conn, text) }() // the server may have closed by then
	reader := bufio.NewReader(conn)
	for {
		response, err := http.ReadResponse(reader, nil)
		if errors.Is(err, os.ErrDeadlineExceeded) && len(statuses) == 0 {
			return statuses, fmt.Errorf("neither an answer nor an end: %w", err)
		}
		if err != nil {
			return statuses, nil // closed, or kept for more
		}
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		statuses = append(statuses, response.StatusCode)
		if err := conn.SetDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
			return statuses, err
		}
		if err != nil {
			return statuses, fmt.Errorf("an answer broke off: %w", err)
		}
	}
}
