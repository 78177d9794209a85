package operations_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// The user and password for a broker are told to nobody. They stay with the broker that they were given for, and are
// not sent to another one.
func TestBrokersCredentialsAreNotShown(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	put := func(url string) *api.Push {
		t.Helper()
		got := calltest.One[api.Queue](f, hop.PutQueue.Path, f.Tenant, pushes(func(p *api.PushRequest) { p.URL = url }))
		return got.Settings.Push
	}
	stored := func() (sealed []byte) {
		t.Helper()
		if err := f.Behind.QueryRow(t.Context(), `SELECT push_credentials FROM queues`).Scan(&sealed); err != nil {
			t.Fatal(err)
		}
		return sealed
	}
	made := put("amqps://ada:p%40ssword@example.com/jobs/mail")
	if made.URL != "amqps://example.com/jobs/mail" || made.Settle == nil || *made.Settle != api.SettleConfirm || !made.CredentialsSet {
		t.Errorf("%+v", made)
	}
	sealed := stored()
	if again := put("amqps://example.com/jobs/other"); !again.CredentialsSet || !bytes.Equal(stored(), sealed) {
		t.Errorf("the same broker: %+v", again)
	}
	if changed := put("amqps://ada:other@example.com/jobs/other"); !changed.CredentialsSet || bytes.Equal(stored(), sealed) {
		t.Errorf("a new password: %+v", changed)
	}
	if none := put("amqps://@example.com/jobs/other"); none.CredentialsSet || stored() != nil {
		t.Errorf("an empty user: %+v", none)
	}
	for _, other := range []string{"amqps://example.org/jobs/other", "amqps://example.com:5673/jobs/other", "tls://example.com/jobs", "https://example.com/jobs"} {
		put("amqps://ada:p%40ssword@example.com/jobs/mail")
		if moved := put(other); moved.CredentialsSet || stored() != nil {
			t.Errorf("%s gets the password of another broker", other)
		}
	}
	var audited []byte
	if err := f.Behind.QueryRow(t.Context(), `SELECT json_agg(detail)::text FROM audit_log`).Scan(&audited); err != nil {
		t.Fatal(err)
	}
	get := f.Send(f.Request(t.Context(), hop.GetQueue.Path, calltest.Envelope(calltest.Item(f.Tenant, hop.Name{Name: "hooks"}))))
	for _, secret := range []string{"p@ssword", "p%40ssword", "ada"} {
		if bytes.Contains(get.Body, []byte(calltest.Secret)) || bytes.Contains(audited, []byte(calltest.Secret)) || bytes.Contains(sealed, []byte(calltest.Secret)) || f.Logged.Has(secret) {
			t.Errorf("%s is told", secret)
		}
	}
}

func TestBrokersThatCannotBe(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	for push, field := range map[string]string{
		`{"url":"amqp://example.com/a/b"}`:                             "push.url", // not encrypted
		`{"url":"nats://example.com/a"}`:                               "push.url",
		`{"url":"kafka://example.com/a"}`:                              "push.url",
		`{"url":"amqps://10.0.0.1/a/b"}`:                               "push.url",
		`{"url":"tls://localhost/a"}`:                                  "push.url",
		`{"url":"amqps://example.com/a"}`:                              "push.url",
		`{"url":"amqps://example.com/a/b/c"}`:                          "push.url",
		`{"url":"amqps://example.com//"}`:                              "push.url",
		`{"url":"amqps://example.com/a/b?x=1"}`:                        "push.url",
		`{"url":"amqps://example.com/a/b?vhost="}`:                     "push.url",
		`{"url":"amqps://:secret@example.com/a/b"}`:                    "push.url",
		`{"url":"amqps://a:b#c@example.com/a/b"}`:                      "push.url",
		`{"url":"tls://example.com/a.*"}`:                              "push.url",
		`{"url":"tls://example.com/$JS.API.STREAM.DELETE.X"}`:          "push.url",
		`{"url":"tls://example.com/a?=1"}`:                             "push.url",
		`{"url":"kafka+tls://example.com/a/b"}`:                        "push.url",
		`{"url":"kafka+tls://example.com/a?sasl=none"}`:                "push.url",
		`{"url":"kafka+tls://one.example,two.example/a"}`:              "push.url",
		`{"url":"redis://example.com/a"}`:                              "push.url",
		`{"url":"amqps://example.com/a/b","settle":"never"}`:           "push.settle",
		`{"url":"https://example.com/a","settle":"worker"}`:            "push.settle",
		`{"url":"amqps://example.com/a/b","settle":"","timeout_ms":1}`: "push.settle",
	} {
		var request hop.Put[api.QueueRequest]
		if err := json.Unmarshal([]byte(`{"name":"hooks","value":{"mode":"push","push":`+push+`}}`), &request); err != nil {
			t.Fatal(err)
		}
		result := calltest.Ask[api.Queue](f, hop.PutQueue.Path, calltest.Item(f.Tenant, request))[0]
		if result.Problem == nil || result.Status != 400 || len(result.Problem.Errors) == 0 || result.Problem.Errors[0].Field != field {
			t.Errorf("%s: %d %+v", push, result.Status, result.Problem)
		}
	}
}
