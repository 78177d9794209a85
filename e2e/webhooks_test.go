package e2e_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// hookCall is a call that an endpoint has got.
type hookCall struct {
	header http.Header
	body   []byte
	event  api.WebhookEvent
}

// hookEndpoint notes its calls, and answers with a status.
type hookEndpoint struct {
	*httptest.Server
	mu     sync.Mutex
	calls  []hookCall
	status int
}

func newHookEndpoint(t *testing.T) *hookEndpoint {
	t.Helper()
	e := &hookEndpoint{status: http.StatusNoContent}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		call := hookCall{header: r.Header, body: body}
		_ = json.Unmarshal(body, &call.event)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.calls = append(e.calls, call)
		w.WriteHeader(e.status)
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *hookEndpoint) answer(status int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status = status
}

// got gives the calls with events of a kind.
func (e *hookEndpoint) got(kind string) []hookCall {
	e.mu.Lock()
	defer e.mu.Unlock()
	var of []hookCall
	for _, call := range e.calls {
		if call.event.Type == kind {
			of = append(of, call)
		}
	}
	return of
}

// waits until there are n calls of a kind.
func (e *hookEndpoint) await(t *testing.T, kind string, n int) []hookCall {
	t.Helper()
	var got []hookCall
	stack.Eventually(t, time.Minute, kind+" is delivered", func() bool {
		got = e.got(kind)
		return len(got) >= n
	})
	return got
}

// acceptedBy says with which secrets a call verifies, by the reference libraries in Go and JavaScript.
func acceptedBy(t *testing.T, call hookCall, secrets ...string) (inGo, inJavaScript []bool) {
	t.Helper()
	headers := map[string]string{}
	for _, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
		headers[name] = call.header.Get(name)
	}
	for _, secret := range secrets {
		verifier, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		inGo = append(inGo, verifier.Verify(call.body, call.header) == nil)
	}
	input, err := json.Marshal(map[string]any{"secrets": secrets, "headers": headers, "body": string(call.body)})
	if err != nil {
		t.Fatal(err)
	}
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("CI needs node: see .ci/install")
		}
		t.Log("node is not installed: not verified in JavaScript")
		return inGo, inGo
	}
	command := exec.CommandContext(t.Context(), node, stack.Repository("e2e", "testdata", "standardwebhooks", "verify.cjs"))
	command.Stdin = bytes.NewReader(input)
	output, err := command.CombinedOutput()
	var answer struct{ Accepted []bool }
	if err != nil || json.Unmarshal(output, &answer) != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return inGo, answer.Accepted
}

// The life of a webhook by the public API: made, called for each end, signed as the reference libraries verify,
// rotated, tested, failing, redriven, deleted.
func TestWebhook(t *testing.T) {
	t.Parallel()
	cluster := stack.SharedCluster(t)
	c := cluster.Client(t, cluster.NewTenant(t, "hooked").Key)
	endpoint := newHookEndpoint(t)
	made, err := c.PutWebhook(t.Context(), "all", api.WebhookRequest{
		URL: endpoint.URL, Events: []string{api.EventJobCompleted, api.EventJobDeadLetter, api.EventWorkflowEnded}, Filter: &api.WebhookFilter{Queue: new("mine")},
	})
	if err != nil || made.Secret == nil {
		t.Fatalf("%+v, %v", made, err)
	}
	if again, err := c.Webhook(t.Context(), "all"); err != nil || again.Secret != nil {
		t.Errorf("the secret is shown again: %+v, %v", again, err)
	}
	completed := stack.Submit(t, c, api.SubmitRequest{Type: "t", Queue: "mine", Payload: json.RawMessage(`"private"`)})
	job := stack.ClaimOne(t, c, "w", "mine")
	if _, err := c.Complete(t.Context(), job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken, Result: json.RawMessage(`{"n": 1.50}`)}); err != nil {
		t.Fatal(err)
	}
	call := endpoint.await(t, api.EventJobCompleted, 1)[0]
	delivered := call.event.Data.Job
	if delivered == nil || delivered.ID != completed || delivered.State != api.StateCompleted || bytes.Contains(call.body, []byte("private")) || !bytes.Contains(call.body, []byte("1.50")) {
		t.Errorf("%s", call.body)
	}
	inGo, inJavaScript := acceptedBy(t, call, *made.Secret, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if want := []bool{true, false}; !slices.Equal(inGo, want) || !slices.Equal(inJavaScript, want) {
		t.Errorf("verified with its secret, and with another: %v in Go, %v in JavaScript", inGo, inJavaScript)
	}
	rotatesItsSecret(t, c, endpoint, *made.Secret)
	endsOfWorkflowsAreDelivered(t, c, endpoint)
	failingDeliveriesAreBrowsed(t, c, endpoint)
	if err := c.DeleteWebhook(t.Context(), "all"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Webhook(t.Context(), "all"); client.Status(err) != http.StatusNotFound {
		t.Errorf("a deleted webhook: %v", err)
	}
}

// rotatesAgain repeats rotations as a client does whose answer was lost: the secret that receivers know stays, and with the
// same Idempotency-Key so does the new one. It leaves the last one in rotated.
func rotatesAgain(t *testing.T, c *client.Client, rotated *api.Webhook, old string) {
	t.Helper()
	var secrets []string
	for _, key := range []string{"one", "one", "two"} {
		again, err := c.RotateWebhookSecret(t.Context(), "all", client.WithIdempotencyKey(key))
		if err != nil || again.Secret == nil || *again.Secret == old {
			t.Fatalf("%+v, %v", again, err)
		}
		secrets = append(secrets, *again.Secret)
		*rotated = again
	}
	if secrets[0] != secrets[1] || secrets[1] == secrets[2] {
		t.Errorf("by the same key, and by another: %q", secrets)
	}
	first, err := c.TestWebhook(t.Context(), "all", client.WithIdempotencyKey("test"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.TestWebhook(t.Context(), "all", client.WithIdempotencyKey("test"))
	if err != nil || again.ID != first.ID {
		t.Errorf("a test that is repeated: %+v %v, the first was %s", again, err, first.ID)
	}
}

// For a day calls are signed with both secrets.
func rotatesItsSecret(t *testing.T, c *client.Client, endpoint *hookEndpoint, old string) {
	t.Helper()
	rotated, err := c.RotateWebhookSecret(t.Context(), "all")
	if err != nil || rotated.Secret == nil || *rotated.Secret == old || rotated.PreviousSecretUntil == nil {
		t.Fatalf("%+v, %v", rotated, err)
	}
	rotatesAgain(t, c, &rotated, old)
	tries := 1
	stack.Eventually(t, time.Minute, "calls are signed with the new secret", func() bool { // by each core
		delivery, err := c.TestWebhook(t.Context(), "all")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Wait(t.Context(), delivery.ID); err != nil {
			t.Fatal(err)
		}
		tries++
		calls := endpoint.await(t, api.EventWebhookTest, tries)
		inGo, inJavaScript := acceptedBy(t, calls[tries-1], old, *rotated.Secret)
		return slices.Equal(inGo, []bool{true, true}) && slices.Equal(inJavaScript, []bool{true, true})
	})
}

func endsOfWorkflowsAreDelivered(t *testing.T, c *client.Client, endpoint *hookEndpoint) {
	t.Helper()
	made, err := c.SubmitWorkflow(t.Context(), client.Workflow().
		Add("first", api.SubmitRequest{Type: "t", Queue: "mine"}).
		Add("last", api.SubmitRequest{Type: "t", Queue: "mine"}).After("first"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		job := stack.ClaimOne(t, c, "w", "mine")
		if _, err := c.Complete(t.Context(), job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken}); err != nil {
			t.Fatal(err)
		}
	}
	ended := endpoint.await(t, api.EventWorkflowEnded, 1)[0].event.Data.Workflow
	if ended == nil || ended.ID != made.ID || ended.State != api.WorkflowCompleted || ended.FinishedAt == nil {
		t.Errorf("%+v", ended)
	}
}

// A delivery that is refused for good is a dead letter of the webhook's queue, and can be redriven there.
func failingDeliveriesAreBrowsed(t *testing.T, c *client.Client, endpoint *hookEndpoint) {
	t.Helper()
	endpoint.await(t, api.EventJobCompleted, 3) // those of the workflow's jobs too
	// A call may be repeated, such as after a timeout: none of these may meet the other answer.
	stack.Eventually(t, time.Minute, "all deliveries have ended", func() bool {
		shown, err := c.Webhook(t.Context(), "all")
		if err != nil {
			t.Fatal(err)
		}
		return shown.Deliveries.Waiting == 0 && shown.Deliveries.Running == 0
	})
	endpoint.answer(http.StatusGone)
	stack.Submit(t, c, api.SubmitRequest{Type: "t", Queue: "mine"})
	job := stack.ClaimOne(t, c, "w", "mine")
	if _, err := c.Fail(t.Context(), job.ID, api.FailRequest{LeaseToken: job.LeaseToken, Permanent: true, Error: &api.JobError{Type: "e", Message: "m"}}); err != nil {
		t.Fatal(err)
	}
	first := endpoint.await(t, api.EventJobDeadLetter, 1)[0]
	if first.event.Data.Job.ID != job.ID || *first.event.Data.Job.DeadReason != api.ReasonPermanent {
		t.Errorf("%s", first.body)
	}
	var dead api.Page[api.DeadLetter]
	stack.Eventually(t, time.Minute, "the delivery is a dead letter, and so shown", func() bool {
		var err error
		if dead, err = c.DeadLetters(t.Context(), api.DeadLetterFilter{Queue: api.WebhookQueue("all")}, client.PageRequest{}); err != nil {
			t.Fatal(err)
		}
		shown, err := c.Webhook(t.Context(), "all")
		if err != nil {
			t.Fatal(err)
		}
		d := shown.Deliveries
		return len(dead.Items) == 1 && d.DeadLetter == 1 && d.LastStatus != nil && *d.LastStatus == http.StatusGone
	})
	own, err := c.DeadLetters(t.Context(), api.DeadLetterFilter{}, client.PageRequest{})
	if err != nil || len(own.Items) != 1 || own.Items[0].Job.ID != job.ID {
		t.Errorf("the tenant's own dead letters: %+v, %v", own.Items, err)
	}
	endpoint.answer(http.StatusOK)
	if _, err := c.Redrive(t.Context(), dead.Items[0].Job.ID); err != nil {
		t.Fatal(err)
	}
	second := endpoint.await(t, api.EventJobDeadLetter, 2)[1]
	if first.header.Get("webhook-id") != second.header.Get("webhook-id") || !bytes.Equal(first.body, second.body) {
		t.Errorf("a redriven delivery is another message: %v, %v", first.header, second.header)
	}
	if _, err := c.Submit(t.Context(), api.SubmitRequest{Type: "t", Queue: api.WebhookQueue("all")}); err == nil {
		t.Error("a job is submitted to a system queue")
	}
}
