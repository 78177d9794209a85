package operations_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func pushes(change ...func(*api.PushRequest)) hop.Put[api.QueueRequest] {
	push := &api.PushRequest{URL: "https://example.com/jobs"}
	for _, c := range change {
		c(push)
	}
	return hop.Put[api.QueueRequest]{Name: "hooks", Value: api.QueueRequest{Mode: new(api.ModePush), Push: push}}
}

// The secret of a queue in push mode is told when it is made or replaced, and never
// again: not in lists, not in the log, not in the database.
func TestPushSecretIsShownOnce(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	put := func(request hop.Put[api.QueueRequest]) api.Queue {
		return calltest.One[api.Queue](f, hop.PutQueue.Path, f.Tenant, request)
	}
	made := put(pushes())
	if made.Mode != api.ModePush || made.Settings.Push == nil || made.Settings.Push.Secret == nil || !api.ValidPushSecret(*made.Settings.Push.Secret) {
		t.Fatalf("%+v", made.Settings.Push)
	}
	first := *made.Settings.Push.Secret
	stored := func() (sealed []byte) {
		if err := f.Behind.QueryRow(t.Context(), `SELECT push_secret FROM queues`).Scan(&sealed); err != nil {
			t.Fatal(err)
		}
		return sealed
	}
	sealed := stored()
	if again := put(pushes(func(p *api.PushRequest) { p.TimeoutMS = new(int64(1000)) })); again.Settings.Push.Secret != nil || again.Settings.Push.TimeoutMS != 1000 || !bytes.Equal(stored(), sealed) {
		t.Errorf("a repeat: %+v", again.Settings.Push)
	}
	second := put(pushes(func(p *api.PushRequest) { p.NewSecret = true })).Settings.Push.Secret
	if second == nil || *second == first || bytes.Equal(stored(), sealed) {
		t.Errorf("a new secret: %v", second)
	}
	own := api.PushSecretPrefix + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("o", 24)))
	if got := put(pushes(func(p *api.PushRequest) { p.Secret = &own })).Settings.Push.Secret; got == nil || *got != own {
		t.Errorf("an own secret: %v", got)
	}
	list := f.Send(f.Request(t.Context(), hop.ListQueues.Path, calltest.Envelope(calltest.Item(f.Tenant, hop.PageRequest{}))))
	get := f.Send(f.Request(t.Context(), hop.GetQueue.Path, calltest.Envelope(calltest.Item(f.Tenant, hop.Name{Name: "hooks"}))))
	for _, secret := range []string{first, *second, own} {
		raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, api.PushSecretPrefix))
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string][]byte{"the list": list.Body, "the queue": get.Body, "the database": stored()} {
			if bytes.Contains(text, []byte(calltest.Secret)) || bytes.Contains(text, raw) {
				t.Errorf("%s tells a secret: %s", name, text)
			}
		}
		if f.Logged.Has(secret) {
			t.Error("the log tells a secret")
		}
	}
	if !strings.Contains(string(get.Body), `"secret":null`) {
		t.Errorf("%s", get.Body)
	}
	// Pulled for a while, it has none; it gets another one.
	if pulled := put(hop.Put[api.QueueRequest]{Name: "hooks"}); pulled.Mode != api.ModePull || pulled.Settings.Push != nil || pulled.Breaker != nil || stored() != nil {
		t.Errorf("%+v", pulled)
	}
	if back := put(pushes()).Settings.Push.Secret; back == nil || *back == own {
		t.Error("it goes on with the secret that it had given up")
	}
}

func TestPushSettingsThatCannotBe(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	for body, field := range map[string]string{
		`"mode":"push"`: "push", `"mode":"both"`: "mode", `"push":{"url":"https://example.com"}`: "push",
		`"mode":"push","push":{"url":"http://example.com/"}`:                "push.url",
		`"mode":"push","push":{"url":"https://a:b@example.com/"}`:           "push.url",
		`"mode":"push","push":{"url":"https://169.254.169.254/latest"}`:     "push.url",
		`"mode":"push","push":{"url":"https://localhost/"}`:                 "push.url",
		`"mode":"push","push":{"url":"https://example.com","timeout_ms":1}`: "push.timeout_ms",
	} {
		var request hop.Put[api.QueueRequest]
		if err := json.Unmarshal([]byte(`{"name":"hooks","value":{`+body+`}}`), &request); err != nil {
			t.Fatal(err)
		}
		result := calltest.Ask[api.Queue](f, hop.PutQueue.Path, calltest.Item(f.Tenant, request))[0]
		if result.Problem == nil || result.Status != 400 || len(result.Problem.Errors) == 0 || result.Problem.Errors[0].Field != field {
			t.Errorf("%s: %d %+v", body, result.Status, result.Problem)
		}
	}
}

func TestRateAndCurveAreKept(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	got := calltest.One[api.Queue](f, hop.PutQueue.Path, f.Tenant, hop.Put[api.QueueRequest]{Name: "slow", Value: api.QueueRequest{
		RatePerSecond: new(2.5), Retry: &api.RetryRequest{Curve: new(api.CurveLinear)},
	}}).Settings
	if got.RatePerSecond == nil || *got.RatePerSecond != 2.5 || got.Retry.Curve != api.CurveLinear {
		t.Errorf("%+v", got)
	}
	request := calltest.Job(func(r *api.SubmitRequest) { r.Queue = "slow" })
	own := calltest.Job(func(r *api.SubmitRequest) {
		r.Queue = "slow"
		r.Retry = &api.RetryRequest{Curve: new(api.CurveConstant)}
	})
	for want, sent := range map[string]hop.SubmitJobsRequest{api.CurveLinear: request, api.CurveConstant: own} {
		id := calltest.Decode[api.SubmitResponse](f, calltest.One[json.RawMessage](f, hop.SubmitJobs.Path, f.Tenant, sent)).ID
		if stored := f.Get(id).Retry.Curve; stored != want {
			t.Errorf("the job's curve is %s, want %s", stored, want)
		}
	}
}
