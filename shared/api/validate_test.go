package api_test

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// What no rule of one field can say: times, and fields that exclude each other. The rules of fields are proved by
// gateway/internal/httpapi, TestEveryBoundOfTheDocument.
func TestSubmitValidate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body string
		// field is the one refused, empty where nothing is
		field string
	}{
		{"least", `{"type":"a"}`, ""},
		{"most", `{"type":"a.b:c-d_e","queue":"q","payload":{"x":1e400},"priority":9,"delay_ms":0,"max_attempts":1000,"timeout_ms":1,"retry":{"jitter":1},"tags":["gpu"],"user":"u 1","metadata":{"k":""},"dedupe_key":"~"}`, ""},
		{"no type", `{}`, "type"},
		{"both times", `{"type":"a","run_at":"2026-01-01T00:00:00Z","delay_ms":1}`, "run_at"},
		{"NUL in metadata", `{"type":"a","metadata":{"k":"a\u0000"}}`, "metadata.k"},
		{"a time to live", `{"type":"a","expires_after_ms":1000}`, ""},
		{"a deadline and a time to live", `{"type":"a","deadline":"2026-12-01T00:00:00Z","expires_after_ms":1000}`, "deadline"},
		{"far deadline", `{"type":"a","deadline":"9999-01-01T00:00:00Z"}`, "deadline"},
		{"ten years ahead", `{"type":"a","run_at":"2036-11-20T12:00:00Z","deadline":"2036-11-20T12:00:00Z"}`, ""},
		{"more than ten years ahead", `{"type":"a","run_at":"2036-11-22T12:00:00Z"}`, "run_at"},
		{"a duration that Go cannot hold", `{"type":"a","run_at":"2330-01-01T00:00:00Z"}`, "run_at"},
		{"a deadline in more than ten years", `{"type":"a","deadline":"2320-01-01T00:00:00Z"}`, "deadline"},
	}
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var request api.SubmitRequest
			if err := json.Unmarshal([]byte(test.body), &request); err != nil {
				t.Fatal(err)
			}
			fields := request.Validate("jobs[3].", now)
			if test.field == "" {
				if len(fields) > 0 {
					t.Fatalf("refused: %v", fields)
				}
				return
			}
			if len(fields) != 1 || fields[0].Field != "jobs[3]."+test.field {
				t.Fatalf("refused %v, want only %s", fields, test.field)
			}
		})
	}
}

// A key that is bound to a user cannot claim: with the scope work alone it can do nothing.
func TestAKeyThatCanDoNothing(t *testing.T) {
	t.Parallel()
	user := "bob"
	for _, test := range []struct {
		key     api.KeyRequest
		refused bool
	}{
		{api.KeyRequest{User: &user, Scopes: []string{api.ScopeWork}}, true},
		{api.KeyRequest{User: &user, Scopes: []string{api.ScopeWork, api.ScopeWork}}, true},
		{api.KeyRequest{User: &user, Scopes: []string{api.ScopeWork, api.ScopeRead}}, false},
		{api.KeyRequest{Scopes: []string{api.ScopeWork}}, false},
	} {
		fields := test.key.Validate(time.Now())
		if (len(fields) > 0) != test.refused || test.refused && fields[0].Field != "user" {
			t.Errorf("%+v: %v", test.key, fields)
		}
	}
}

// Keys are the tenant's: one that is bound to a user cannot make others.
func TestScopesOfAKey(t *testing.T) {
	t.Parallel()
	user := "bob"
	for _, test := range []struct {
		key   api.KeyRequest
		field string // the refused one; empty for none
	}{
		{api.KeyRequest{Scopes: api.Scopes()}, ""},
		{api.KeyRequest{Scopes: []string{api.ScopeAdmin}}, ""},
		{api.KeyRequest{User: &user, Scopes: api.UserScopes()}, ""},
		{api.KeyRequest{User: &user, Scopes: []string{api.ScopeRead, api.ScopeAdmin}}, "scopes[1]"},
	} {
		fields := test.key.Validate(time.Now())
		if (len(fields) > 0) != (test.field != "") || len(fields) > 0 && fields[0].Field != test.field {
			t.Errorf("%+v: %v, want %q", test.key, fields, test.field)
		}
	}
}

func TestTimeHasSixDecimals(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`"2026-11-20T12:00:00Z"`:                `"2026-11-20T12:00:00.000000Z"`,
		`"2026-11-20T13:30:00.123456789+01:30"`: `"2026-11-20T12:00:00.123456Z"`,
	} {
		var at api.Time
		if err := json.Unmarshal([]byte(in), &at); err != nil {
			t.Fatal(err)
		}
		out, err := json.Marshal(at)
		if err != nil || string(out) != want {
			t.Errorf("%s became %s (%v), want %s", in, out, err, want)
		}
	}
	var at api.Time
	if err := json.Unmarshal([]byte(`1764000000`), &at); err == nil {
		t.Error("a number is no time")
	}
}

// A job's error may hold anything; what is stored never breaks a database or a rune.
func TestCleanKeepsTextWhole(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	lengths := []int{0, 1, api.MaxErrorMessage - 1, api.MaxErrorMessage, api.MaxErrorMessage + 1, 3 * api.MaxErrorMessage}
	for i := range 200 {
		length := random.IntN(3*api.MaxErrorMessage + 1)
		if i < len(lengths) {
			length = lengths[i]
		}
		message := make([]byte, length)
		for at := range message {
			message[at] = byte(random.Uint32())
		}
		for _, message := range []string{string(message), strings.Repeat("€", length/3) + string(message), "\x00" + strings.Repeat("a", length)} {
			clean := (&api.JobError{Message: message}).Clean()
			if len(clean.Message) > api.MaxErrorMessage || !utf8.ValidString(clean.Message) || strings.Contains(clean.Message, "\x00") {
				t.Fatalf("not clean: %d bytes, valid %v, of %q", len(clean.Message), utf8.ValidString(clean.Message), message)
			}
		}
	}
	whole := (&api.JobError{Type: "t", Message: "kept", Stack: "s"}).Clean()
	if whole.Message != "kept" || whole.Type != "t" || whole.Stack != "s" {
		t.Fatalf("a short error changed: %+v", whole)
	}
}

func TestJobShowsTheWholeError(t *testing.T) {
	t.Parallel()
	job := api.Job{JobSummary: api.JobSummary{Tags: []string{}}, LastError: &api.JobError{Stack: "at main.go:1"}}
	out, err := json.Marshal(job)
	if err != nil || !strings.Contains(string(out), `"stack":"at main.go:1"`) || strings.Count(string(out), `"last_error"`) != 1 {
		t.Fatalf("%s (%v)", out, err)
	}
}

func TestValidName(t *testing.T) {
	t.Parallel()
	pattern := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)
	names := []string{"", "a", "Z9", "a.b_c:d-e", strings.Repeat("a", 128), strings.Repeat("a", 129), "a\n", "\na", "é", "a/b", "a b"}
	for b := range 256 {
		names = append(names, string([]byte{byte(b)}), string([]byte{'a', byte(b)}), string([]byte{byte(b), 'a'}))
	}
	for _, name := range names {
		if got := api.ValidName(name); got != pattern.MatchString(name) {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// The same request has the same errors in the same order, always.
func TestErrorsHaveOneOrder(t *testing.T) {
	t.Parallel()
	bad, negative := 0.0, int64(-1)
	metadata, users := map[string]string{}, map[string]api.Limits{}
	for _, letter := range "abcdefghijklmnopqrstuvwxyz" {
		metadata["-"+string(letter)] = "\x00"
		users["é"+string(letter)] = api.Limits{RequestsPerSecond: &bad}
	}
	all := api.Limits{
		RequestsPerSecond: &bad, JobsPerSecond: &bad, UserRequestsPerSecond: &bad, UserJobsPerSecond: &bad,
		RequestBurst: &negative, JobBurst: &negative, MaxActive: &negative, MaxRunning: &negative,
		UserRequestBurst: &negative, UserJobBurst: &negative, UserMaxActive: &negative, UserMaxRunning: &negative,
	}
	for name, validate := range map[string]func() []problem.FieldError{
		"a submit": func() []problem.FieldError {
			return (&api.SubmitRequest{Type: "t", Metadata: metadata}).Validate("", time.Now())
		},
		"a plan":   (&api.PlanRequest{Limits: all}).Validate,
		"a tenant": (&api.TenantPatch{Overrides: &api.Overrides{Limits: all, Users: users}}).Validate,
	} {
		first := validate()
		if len(first) < 12 {
			t.Errorf("%s: %d errors", name, len(first))
		}
		for range 20 {
			if again := validate(); !slices.Equal(first, again) {
				t.Fatalf("%s: %v, then %v", name, first, again)
			}
		}
	}
}
