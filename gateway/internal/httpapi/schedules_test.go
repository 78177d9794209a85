package httpapi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// What cannot be a schedule does not reach core, and the field is named.
func TestPutScheduleRefuses(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("manage")
	d.core.On(hop.PutSchedule.Path, func(coretest.Item) coretest.Result { return coretest.Value(200, api.Schedule{Name: "s"}) })
	const job = `"job":{"type":"t"}`
	for _, one := range [][2]string{
		{"cron", `{` + job + `}`},
		{"cron", `{"cron":"@daily","every_ms":1000,` + job + `}`},
		{"every_ms", `{"every_ms":999,` + job + `}`},
		{"every_ms", `{"every_ms":1e300,` + job + `}`},
		{"starts_at", `{"every_ms":1000,"starts_at":"2999-01-01T00:00:00Z",` + job + `}`},
		{"ends_at", `{"every_ms":1000,"starts_at":"2026-02-01T00:00:00Z","ends_at":"2026-01-01T00:00:00Z",` + job + `}`},
		{"job.type", `{"every_ms":1000}`},
		{"job.run_at", `{"every_ms":1000,"job":{"type":"t","run_at":"2030-01-01T00:00:00Z"}}`},
		{"job.delay_ms", `{"every_ms":1000,"job":{"type":"t","delay_ms":1}}`},
		{"job.deadline", `{"every_ms":1000,"job":{"type":"t","deadline":"2030-01-01T00:00:00Z"}}`},
		{"job.after", `{"every_ms":1000,"job":{"type":"t","after":[]}}`},
		{"cap", `{"every_ms":1000,"cap":1,` + job + `}`},
	} {
		field, body := one[0], one[1]
		got := d.do("PUT", "/v1/schedules/s", key, body)
		if got.status != 400 || !strings.Contains(string(got.body), `"field":"`+field+`"`) {
			t.Errorf("%.80s: status %d %s", body, got.status, got.body)
		}
	}
	if n := len(d.core.Requests(hop.PutSchedule.Path)); n != 0 {
		t.Errorf("%d bad requests reached core", n)
	}
	large := `{"every_ms":1000,"job":{"type":"t","payload":"` + strings.Repeat("x", api.MaxPayload) + `"}}`
	if got := d.do("PUT", "/v1/schedules/s", key, large); got.status != 413 || !strings.Contains(string(got.body), "job.payload") {
		t.Errorf("a payload that is too large: %d %.200s", got.status, got.body)
	}
	for _, absent := range []string{`{"every_ms":1000,` + job + `}`, `{"every_ms":1000,"cron":null,"overlap":null,"catch_up_max":null,"paused":null,"job":{"type":"t","user":null,"payload":null}}`} {
		if got := d.do("PUT", "/v1/schedules/s", key, absent); got.status != 200 {
			t.Errorf("%s: %d %s", absent, got.status, got.body)
		}
	}
}

// A key that is bound to a user makes schedules of that user only.
func TestPutScheduleOfAUser(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.keyWith(func(k *hop.KeyRecord) { k.Scopes, k.User = api.Scopes(), "ada" })
	d.core.On(hop.PutSchedule.Path, func(coretest.Item) coretest.Result { return coretest.Value(200, api.Schedule{Name: "s"}) })
	for body, status := range map[string]int{
		`{"every_ms":1000,"job":{"type":"t"}}`: 200, `{"every_ms":1000,"job":{"type":"t","user":"ada"}}`: 200, `{"every_ms":1000,"job":{"type":"t","user":"bob"}}`: 403,
	} {
		got := d.do("PUT", "/v1/schedules/s", key, body)
		if got.status != status {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
		if status != 200 {
			continue // nothing was sent, and the refused body may be the first
		}
		if sent := last[hop.Put[api.ScheduleRequest]](d, hop.PutSchedule.Path); sent.Value.Job.User == nil || *sent.Value.Job.User != "ada" || sent.Name != "s" {
			t.Errorf("%s: core got %+v", body, sent)
		}
	}
}

// A trigger submits a job, and costs one.
func TestTriggersAreUnderTheJobRate(t *testing.T) {
	t.Parallel()
	d := newDoor(t, onRedis(t))
	key := d.limited(api.Limits{JobsPerSecond: new(slowly), JobBurst: new(int64(2))})
	d.core.On(hop.TriggerSchedule.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(202, api.SubmitResponse{JobSummary: api.JobSummary{ID: jobID}})
	})
	var got []int
	for range 3 {
		got = append(got, d.do("POST", "/v1/schedules/s/trigger", key, "").status)
	}
	if !slices.Equal(got, []int{202, 202, 429}) {
		t.Errorf("triggers under a burst of two: %v", got)
	}
}

// A trigger's Idempotency-Key is of one schedule, with and without a body.
func TestTriggerSchedule(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("manage")
	d.core.On(hop.TriggerSchedule.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(202, api.SubmitResponse{JobSummary: api.JobSummary{ID: jobID}})
	})
	for _, body := range []string{"", "{}"} {
		got := d.do("POST", "/v1/schedules/s/trigger", key, body, "Idempotency-Key", "k")
		if got.status != 202 || got.header.Get("Location") != "/v1/jobs/"+jobID {
			t.Fatalf("%d %s", got.status, got.body)
		}
		sent := last[hop.OnceRequest](d, hop.TriggerSchedule.Path)
		if sent.Idempotency == nil || sent.Idempotency.Key != "k" || sent.Idempotency.Operation != "schedule_trigger s" || sent.Name != "s" || len(sent.ID) != 36 {
			t.Errorf("core got %+v", sent)
		}
	}
	if got := d.do("POST", "/v1/schedules/s/trigger", key, ""); got.status != 202 || last[hop.OnceRequest](d, hop.TriggerSchedule.Path).Idempotency != nil {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := d.do("POST", "/v1/schedules/s/trigger", key, `{"payload":1}`); got.status != 400 {
		t.Errorf("a body that says something: %d %s", got.status, got.body)
	}
}
