package conformance_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	signingSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	otherSecret   = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	signedBody    = `{"text":"Grüße 🌍"}`
)

// sign gives the signature of the reference library.
func sign(x *trial, secret, id string, at time.Time, body string) string {
	x.Helper()
	webhook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		x.Fatal(err)
	}
	signature, err := webhook.Sign(id, at, []byte(body))
	if err != nil {
		x.Fatal(err)
	}
	return signature
}

// vector is a signed call, and whether it is to be accepted.
type vector struct {
	secrets []string
	headers map[string]string
	body    string
	want    bool
}

func vectors(x *trial) map[string]vector {
	x.Helper()
	now := time.Now()
	signed := func(at time.Time, change func(*vector)) vector {
		v := vector{[]string{signingSecret}, map[string]string{
			"webhook-id": "msg_1", "webhook-timestamp": strconv.FormatInt(at.Unix(), 10), "webhook-signature": sign(x, signingSecret, "msg_1", at, signedBody),
		}, signedBody, false}
		change(&v)
		return v
	}
	header := func(name, value string) vector { return signed(now, func(v *vector) { v.headers[name] = value }) }
	without := func(name string) vector { return signed(now, func(v *vector) { delete(v.headers, name) }) }
	secret := func(want bool, secrets ...string) vector {
		return signed(now, func(v *vector) { v.secrets, v.want = secrets, want })
	}
	accepted := func(v *vector) { v.want = true }
	good := sign(x, signingSecret, "msg_1", now, signedBody)
	wrong := sign(x, otherSecret, "msg_1", now, signedBody)
	all := map[string]vector{
		"good":              signed(now, accepted),
		"names in capitals": signed(now, func(v *vector) { v.headers, v.want = capitals(v.headers), true }),
		"two signatures":    signed(now, func(v *vector) { v.headers["webhook-signature"], v.want = wrong+" "+good, true }),
		"of another version too": signed(now, func(v *vector) {
			v.headers["webhook-signature"], v.want = "v1a,AAAA v2,"+good[3:]+" "+good, true
		}),
		"a bare secret":          secret(true, strings.TrimPrefix(signingSecret, "whsec_")),
		"two secrets":            secret(true, otherSecret, signingSecret),
		"another secret":         secret(false, otherSecret),
		"a secret and one more":  secret(false, signingSecret+"BBBB"),
		"no secret":              secret(false, ""),
		"an empty secret":        secret(false, "whsec_"),
		"a secret not in base64": secret(false, "whsec_***"),
		"another body":           signed(now, func(v *vector) { v.body += " " }),
		"an empty body":          signed(now, func(v *vector) { v.body = "" }),
		"another id":             header("webhook-id", "msg_2"),
		"four minutes old":       signed(now.Add(-4*time.Minute), accepted),
		"six minutes old":        signed(now.Add(-6*time.Minute), func(*vector) {}),
		"seven minutes ahead":    signed(now.Add(7*time.Minute), func(*vector) {}),
	}
	for _, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
		all["without "+name] = without(name)
		all["with an empty "+name] = header(name, "")
	}
	for _, at := range []string{"soon", "1e9", "-5", "0x10", " ", "99999999999999999999", "NaN"} {
		all["the time "+at] = header("webhook-timestamp", at)
	}
	for _, signature := range []string{wrong, good[3:], "v1", "v1,", "v1,!!!", "v2," + good[3:], "v1," + base64.StdEncoding.EncodeToString(make([]byte, 32)), good[:len(good)-4], strings.Repeat("v1, ", 100)} {
		all["the signature "+signature] = header("webhook-signature", signature)
	}
	return all
}

func capitals(headers map[string]string) map[string]string {
	canonical := map[string]string{}
	for name, value := range headers {
		canonical[http.CanonicalHeaderKey(name)] = value
	}
	return canonical
}

func verifies(x *trial) {
	for name, v := range vectors(x) {
		if got := must[bool](x, command{Do: "verify", Secrets: v.secrets, Headers: v.headers, Body: v.body}); got != v.want {
			x.Errorf("%s: %v, want %v", name, got, v.want)
		}
	}
}

// verifiesPush holds a call that a queue in push mode makes.
func verifiesPush(x *trial) {
	type received struct {
		headers map[string]string
		body    string
	}
	calls := make(chan received, 10)
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		headers := map[string]string{}
		for name := range r.Header {
			headers[name] = r.Header.Get(name)
		}
		calls <- received{headers, string(body)}
	}))
	x.Cleanup(endpoint.Close)
	queue, err := x.c.PutQueue(x.Context(), x.queue, api.QueueRequest{Mode: new(api.ModePush), Push: &api.PushRequest{URL: endpoint.URL}})
	if err != nil {
		x.Fatal(err)
	}
	stack.Submit(x.T, x.c, x.simple())
	call := <-calls
	secret := *queue.Settings.Push.Secret
	if !must[bool](x, command{Do: "verify", Secrets: []string{secret}, Headers: call.headers, Body: call.body}) {
		x.Errorf("a call by ForgeQueue is refused: %v %s", call.headers, call.body)
	}
	if must[bool](x, command{Do: "verify", Secrets: []string{otherSecret}, Headers: call.headers, Body: call.body}) {
		x.Error("it is accepted by another secret")
	}
}
