package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/gateway/internal/httpapi"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// signalled has core take signals; it counts them, and the first of all is the first of its name.
func (d *door) signalled() *atomic.Int64 {
	var count atomic.Int64
	d.core.On(hop.SignalJob.Path, func(item coretest.Item) coretest.Result {
		var sent hop.SignalJobRequest
		if err := json.Unmarshal(item.Request, &sent); err != nil || sent.ID != jobID || sent.Signal.Name != "approved" {
			d.t.Errorf("core got %s: %v", item.Request, err)
		}
		return coretest.Value(200, api.Signal{Name: sent.Signal.Name, At: api.At(time.Now()), First: count.Add(1) == 1})
	})
	return &count
}

// A link sends one signal of one job without a key. What reads it changes nothing, and nothing but what the gateway signed is a link.
func TestSignalLinks(t *testing.T) {
	t.Parallel()
	d := newDoor(t, func(o *httpapi.Options) { o.PublicURL = "https://jobs.example.com" })
	d.watched(api.StateWaiting)
	sent := d.signalled()
	var keyID string
	key := d.keyWith(func(k *hop.KeyRecord) { keyID, k.Scopes = k.KeyID, []string{api.ScopeSubmit} })
	var link api.SignalLink
	made := d.do("POST", "/v1/jobs/"+jobID+"/signal-links", key, `{"name":"approved","title":"Refund?","expires_ms":60000}`)
	if err := json.Unmarshal(made.body, &link); err != nil || made.status != http.StatusCreated {
		t.Fatalf("%d %s", made.status, made.body)
	}
	path, ok := strings.CutPrefix(link.URL, "https://jobs.example.com")
	if life := time.Until(link.ExpiresAt.Time); !ok || !strings.HasPrefix(path, "/v1/signal-links/") || life < 50*time.Second || life > time.Minute {
		t.Errorf("%+v", link)
	}
	for range 3 {
		for _, method := range []string{"GET", "HEAD"} {
			got := d.do(method, path, "", "")
			if method == "GET" && !strings.Contains(string(got.body), `"job_id":"`+jobID+`","name":"approved","title":"Refund?"`) || got.status != 200 {
				t.Errorf("%s: %d %s", method, got.status, got.body)
			}
		}
	}
	if n := sent.Load(); n != 0 {
		t.Errorf("reading it has sent %d signals", n)
	}
	for i, body := range []string{`{"data":{"comment":"fine"}}`, ""} {
		var signal api.Signal
		if got := d.do("POST", path, "", body); got.status != 202 || json.Unmarshal(got.body, &signal) != nil || signal.First != (i == 0) {
			t.Errorf("%d: %d %s", i, got.status, got.body)
		}
	}
	token := strings.TrimPrefix(path, "/v1/signal-links/")
	refused := func(what, token string) {
		t.Helper()
		for _, method := range []string{"GET", "POST"} {
			p := d.do(method, "/v1/signal-links/"+token, "", "").refused(t, 401, problem.Unauthenticated)
			if !strings.Contains(p.Detail, "link is not valid") {
				t.Errorf("%s %s: %s", method, what, p.Detail)
			}
		}
	}
	for i := range len(token) - 1 { // the last character has bits that mean nothing
		other := []byte(token)
		if other[i] == 'A' {
			other[i] = 'B'
		} else {
			other[i] = 'A'
		}
		if i%7 == 0 {
			refused("with another character", string(other))
		}
	}
	said, signature, _ := strings.Cut(token, ".")
	refused("cut", said)
	refused("without what it says", "."+signature)
	refused("an events token", func() string { token, _ := d.auth.EventsToken(keyID, jobID); return token }())
	refused("expired", d.auth.SignalToken(auth.SignalLink{KeyID: keyID, Job: jobID, Name: "approved", Title: "t", Expires: time.Now().UnixMilli() - 1}))
	refused("of no key", d.auth.SignalToken(auth.SignalLink{KeyID: "abcdefghijklmnop", Job: jobID, Name: "approved", Title: "t", Expires: time.Now().Add(time.Hour).UnixMilli()}))
	if n := sent.Load(); n != 2 {
		t.Errorf("%d signals were sent", n)
	}
	reader := ""
	d.keyWith(func(k *hop.KeyRecord) { reader, k.Scopes = k.KeyID, []string{api.ScopeRead} })
	d.do("POST", "/v1/signal-links/"+d.auth.SignalToken(auth.SignalLink{KeyID: reader, Job: jobID, Name: "approved", Expires: time.Now().Add(time.Hour).UnixMilli()}), "", "").
		refused(t, 403, problem.Forbidden)
	d.core.RevokeKey(keyID)
	d.auth.Forget(keyID)
	refused("of a revoked key", token)
	if strings.Contains(d.log.String(), token) {
		t.Error("the token is in the log")
	}
}

// A link is made for a job that can still be signalled, and begins as the request did where nothing else is set.
func TestSignalLinksOfJobs(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("submit")
	job := d.watched(api.StateRunning)
	path := "/v1/jobs/" + jobID + "/signal-links"
	for body, want := range map[string]int{
		`{"name":"approved"}`: 201, `{"name":"approved","expires_ms":999}`: 400, `{"name":"approved","expires_ms":31622400001}`: 400, `{}`: 400,
		`{"name":"a b"}`: 400, `{"name":"approved","title":"a\nb"}`: 400, `{"name":"approved","title":"` + strings.Repeat("é", 200) + `"}`: 201,
		`{"name":"approved","title":"` + strings.Repeat("a", 201) + `"}`: 400,
	} {
		got := d.do("POST", path, key, body)
		if got.status != want || want == 201 && !strings.Contains(string(got.body), `"url":"`+d.url+`/v1/signal-links/`) {
			t.Errorf("%.60s: %d %s", body, got.status, got.body)
		}
	}
	if got := d.do("POST", path, key, `{"name":"approved"}`, "X-Forwarded-Proto", "https"); !strings.Contains(string(got.body), `"url":"https://`) {
		t.Errorf("behind a proxy: %s", got.body)
	}
	job.change(func(j *api.Job) { j.State, j.FinishedAt = api.StateCompleted, new(api.At(time.Now())) })
	d.do("POST", path, key, `{"name":"approved"}`).refused(t, 409, problem.JobTerminal)
	job.change(func(*api.Job) { job.gone = true })
	d.do("POST", path, key, `{"name":"approved"}`).refused(t, 404, problem.NotFound)
}
