package console_test

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forgequeue/forgequeue/gateway/internal/console"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// settingsAPI has one of each thing that the console has a form of, and notes what is written.
type settingsAPI struct {
	queue  api.Queue
	budget api.Budget
	tenant api.Tenant
	plans  []api.Plan
	wrote  map[string]json.RawMessage // by path
}

const settingsTenant = "0199f0a4-7c1e-7000-8000-5d2c6f1e9a10"

func (s *settingsAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := func(value any) { _ = json.NewEncoder(w).Encode(value) }
	switch operator := r.Header.Get("Authorization") == "Bearer operator"; {
	case r.Method == http.MethodPut || r.Method == http.MethodPatch:
		body, _ := io.ReadAll(r.Body)
		s.wrote[r.URL.Path] = body
		answer(struct{}{})
	case r.URL.Path == "/v1/whoami" && operator:
		problem.New(problem.Forbidden, "").Write(w)
	case r.URL.Path == "/v1/whoami":
		answer(api.Whoami{Tenant: new("t"), Scopes: api.Scopes(), KeyID: "k"})
	case r.URL.Path == "/v1/queues/q":
		answer(s.queue)
	case r.URL.Path == "/v1/budgets/b":
		answer(s.budget)
	case r.URL.Path == "/v1/budgets/b/usage":
		answer(api.BudgetUsages{Budget: "b", Unit: s.budget.Unit})
	case r.URL.Path == "/v1/admin/plans":
		size := 200
		_, _ = fmt.Sscan(r.URL.Query().Get("page_size"), &size)
		page := api.Page[api.Plan]{Items: s.plans[:min(size, len(s.plans))]}
		if size < len(s.plans) {
			page.NextPageToken = new("more")
		}
		answer(page)
	case strings.HasPrefix(r.URL.Path, "/v1/admin/plans/"):
		answer(s.plans[slices.IndexFunc(s.plans, func(one api.Plan) bool { return strings.HasSuffix(r.URL.Path, "/"+one.Name) })])
	case r.URL.Path == "/v1/admin/tenants/"+settingsTenant:
		answer(s.tenant)
	case strings.HasSuffix(r.URL.Path, "/keys"):
		_, _ = io.WriteString(w, emptyList)
	default:
		problem.New(problem.NotFound, "").Write(w)
	}
}

// draws are values that a setting may have.
type draws struct{ *rand.Rand }

func (d draws) rate() float64 {
	return []float64{
		float64(1 + d.IntN(1_000_000)), float64(1+d.IntN(1_000_000_000)) / 1000, float64(1+d.IntN(2000)) / 1000, d.Float64(), 1 / float64(1+d.IntN(100)), 1e-9 * d.Float64(),
	}[d.IntN(6)]
}

func (d draws) count() int64 {
	return []int64{0, d.Int64N(10), d.Int64N(2000), 1000 * d.Int64N(1000), d.Int64N(1e9 + 1)}[d.IntN(5)]
}

// limits fills each of the limits, or leaves it out.
func (d draws) limits() (l api.Limits) {
	for _, field := range reflect.ValueOf(&l).Elem().Fields() {
		switch {
		case d.IntN(3) == 0:
		case field.Type() == reflect.TypeFor[*float64]():
			field.Set(reflect.ValueOf(new(d.rate())))
		default:
			field.Set(reflect.ValueOf(new(d.count())))
		}
	}
	return l
}

func (d draws) label() *string { return []*string{nil, new("team:a")}[d.IntN(2)] }

func (d draws) ms(most int64) int64 { return 1 + d.Int64N([]int64{2000, 100_000, most}[d.IntN(3)]) }

func (d draws) title() string {
	return []string{
		"Acme", " leads and trails ", `"quoted" & <b>'s`, "日本語", "a  b", "&amp;", "trails\u00a0", "10,000", "\u2028line", strings.Repeat("x", 128),
	}[d.IntN(10)]
}

func (d draws) settings() api.QueueSettings {
	s := api.QueueSettings{
		VisibilityTimeoutMS: d.ms(api.MaxTimeout.Milliseconds()), MaxAttempts: 1 + d.IntN(100),
		Retry: api.Retry{BaseMS: d.ms(1e6), CapMS: d.ms(api.MaxBackoff.Milliseconds()), Jitter: d.Float64(), Curve: []string{api.CurveExponential, api.CurveLinear, api.CurveConstant}[d.IntN(3)]},
		Types: api.TypeLimits{"mail": {MaxRunning: new(d.count()), RatePerSecond: new(d.rate())}},
	}
	s.Keys = []api.KeySettings{
		(*api.KeySettings)(nil).InForce(),
		{MaxRunning: new(1 + d.count()), RatePerSecond: new(d.rate()), Burst: new(1 + d.count()), Order: api.KeyOrderNone, OnDead: api.KeySkip},
		{Fair: true, Order: api.KeyOrderFIFO, OnDead: api.KeyHold},
	}[d.IntN(3)]
	if d.IntN(2) == 0 {
		s.MaxActive, s.MaxRunning, s.RatePerSecond = new(d.count()), new(d.count()), new(d.rate())
	}
	s.Label = d.label()
	if d.IntN(2) == 0 {
		s.Costs = api.Amounts{"tokens": d.count(), "a:b.c_d-e": 1 << 50, "9": 0}
	}
	if d.IntN(2) == 0 {
		s.Push = &api.Push{URL: "amqps://host/exchange/key", TimeoutMS: d.ms(1e5), Settle: new("worker"), Breaker: api.BreakerSettings{
			Calls: 1 + d.IntN(100), FailureRatio: d.Float64(), OpenMS: d.ms(1e6), HalfOpen: 1 + d.IntN(10),
		}}
	}
	return s
}

func (d draws) budget() api.Budget {
	b := api.Budget{Name: "b", Unit: "microDollars", Amount: 1 + d.Int64N([]int64{10, 1e6, 1 << 50}[d.IntN(3)]), Timezone: "UTC"}
	if d.IntN(2) == 0 {
		b.Window, b.Timezone = new([]string{api.BudgetHour, api.BudgetDay, api.BudgetMonth}[d.IntN(3)]), []string{"UTC", "Europe/Berlin"}[d.IntN(2)]
	} else {
		b.PerMS = new(999 + d.ms(366*24*3600*1000-1000))
		if d.IntN(2) == 0 {
			b.Burst = new(1 + d.count())
		}
	}
	b.Label = d.label()
	b.By = []*string{nil, new(api.BudgetByUser), new(api.BudgetByKey)}[d.IntN(3)]
	return b
}

func (d draws) all() *settingsAPI {
	s := &settingsAPI{wrote: map[string]json.RawMessage{}, budget: d.budget(), queue: api.Queue{Name: "q", Mode: api.ModePull, Settings: d.settings()}}
	if s.queue.Settings.Push != nil {
		s.queue.Mode = api.ModePush
	}
	for i := range 1 + d.IntN(250) {
		s.plans = append(s.plans, api.Plan{Name: fmt.Sprintf("plan-%03d", i), Limits: d.limits(), VisibilityTimeoutMSMax: new(1000 + d.ms(1e7)), Label: d.label()})
	}
	s.tenant = api.Tenant{
		ID: settingsTenant, Name: d.title(), Plan: s.plans[len(s.plans)-1].Name, Weight: 1 + d.IntN(1000),
		Overrides: api.Overrides{Limits: d.limits(), Users: map[string]api.Limits{"ada": d.limits()}},
	}
	return s
}

// Every form of settings, as it is rendered, changes nothing if it is saved unchanged: each field of it, for many values.
func TestEveryFormSavedUnchangedChangesNothing(t *testing.T) {
	t.Parallel()
	const seed = 45
	d := draws{rand.New(rand.NewPCG(seed, seed))}
	saved := map[string]int{}
	for range 20 {
		s := d.all()
		made, err := console.New(console.Options{Secret: []byte(strings.Repeat("s", 32)), Now: func() time.Time { return noon }})
		if err != nil {
			t.Fatal(err)
		}
		handler := made.Handler(s)
		for _, key := range []string{"tenant", "operator"} {
			b := &formBrowser{handler: handler}
			b.post("/console/sign-in", url.Values{"key": {key}})
			for _, page := range map[string][]string{"tenant": {"/console/queues/q", "/console/budgets/b"}, "operator": {"/console/admin/plans", "/console/admin/tenants/" + settingsTenant}}[key] {
				for _, form := range formsOf(b.send(http.MethodGet, page, nil).Body.String()) {
					if !form.prefilled {
						continue // it makes something, or is a button
					}
					clear(s.wrote)
					if got := b.post(form.action, form.values); got.Code != http.StatusSeeOther {
						t.Fatalf("%s %v: %d %q", form.action, form.values, got.Code, regexp.MustCompile(`<ul class="refusals">.*</ul>`).FindString(got.Body.String()))
					}
					s.unchanged(t, form)
					saved[strings.TrimRight(form.action, "0123456789")+" "+form.values.Get("do")]++
				}
			}
		}
	}
	want := []string{"/console/admin/plans/plan- ", "/console/admin/tenants/" + settingsTenant + " limits", "/console/admin/tenants/" + settingsTenant + " save", "/console/budgets/b settings", "/console/queues/q settings"}
	for i := range want {
		want[i] = strings.ReplaceAll(want[i], settingsTenant+" ", strings.TrimRight(settingsTenant, "0123456789")+" ")
	}
	if got := slices.Sorted(maps.Keys(saved)); !slices.Equal(got, want) {
		t.Errorf("the forms %q, want %q", got, want)
	}
}

// unchanged compares what was written with what is there. An absent member of a PUT is the default.
func (s *settingsAPI) unchanged(t *testing.T, of htmlForm) {
	t.Helper()
	for path, body := range s.wrote {
		var got map[string]any
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		var want map[string]any
		switch {
		case path == "/v1/queues/q":
			want = asMap(s.queue.Settings)
			want["mode"] = s.queue.Mode
			if push, ok := want["push"].(map[string]any); ok {
				delete(push, "credentials_set")
			}
		case path == "/v1/budgets/b":
			b := s.budget
			want = asMap(b.Request())
		case strings.HasPrefix(path, "/v1/admin/plans/"):
			i := slices.IndexFunc(s.plans, func(one api.Plan) bool { return strings.HasSuffix(path, "/"+one.Name) })
			want = asMap(s.plans[i])
			delete(want, "name")
		default:
			whole := asMap(s.tenant)
			want = map[string]any{}
			for name := range got {
				want[name] = whole[name]
			}
		}
		if diff := cmp.Diff(want, dropNulls(got)); diff != "" {
			t.Errorf("%s, saved unchanged (%v): %s", path, of.values, diff)
		}
	}
	if len(s.wrote) != 1 {
		t.Errorf("%s wrote %d things", of.action, len(s.wrote))
	}
}

func asMap(value any) map[string]any {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		panic(err)
	}
	return dropNulls(all)
}

func dropNulls(all map[string]any) map[string]any {
	for name, value := range all {
		if inner, ok := value.(map[string]any); ok {
			dropNulls(inner)
		}
		if value == nil {
			delete(all, name)
		}
	}
	return all
}

// formBrowser sends what a browser does.
type formBrowser struct {
	handler http.Handler
	cookie  string
}

func (b *formBrowser) post(path string, values url.Values) *httptest.ResponseRecorder {
	return b.send(http.MethodPost, path, values)
}

func (b *formBrowser) send(method, path string, values url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(values.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Cookie", b.cookie)
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	if set := w.Result().Cookies(); len(set) > 0 {
		b.cookie = set[0].Name + "=" + set[0].Value
	}
	return w
}

// htmlForm is a form of a page, with what a browser sends of it.
type htmlForm struct {
	action string
	values url.Values
	// prefilled says that a field to fill in has a value.
	prefilled bool
}

var (
	formTag    = regexp.MustCompile(`(?s)<form method="post" action="([^"]*)"[^>]*>(.*?)</form>`)
	fieldTag   = regexp.MustCompile(`(?s)<(input|button) ([^>]*)>|<select [^>]*name="([^"]*)"[^>]*>(.*?)</select>|<textarea [^>]*name="([^"]*)"[^>]*>([^<]*)</textarea>`)
	optionTag  = regexp.MustCompile(`<option ([^>]*)>([^<]*)</option>`)
	attributes = regexp.MustCompile(`([a-z-]+)(?:="([^"]*)")?`)
)

// formsOf reads the forms of a page. The templates quote each value, and html/template escapes it.
func formsOf(page string) []htmlForm {
	var all []htmlForm
	for _, found := range formTag.FindAllStringSubmatch(page, -1) {
		form := htmlForm{action: html.UnescapeString(found[1]), values: url.Values{}}
		for _, field := range fieldTag.FindAllStringSubmatch(found[2], -1) {
			form.add(field)
		}
		all = append(all, form)
	}
	return all
}

func (f *htmlForm) add(field []string) {
	if name := field[3]; name != "" {
		options := optionTag.FindAllStringSubmatch(field[4], -1)
		chosen := options[0]
		if i := slices.IndexFunc(options, func(one []string) bool { return strings.Contains(one[1], "selected") }); i >= 0 {
			chosen = options[i]
		}
		f.values.Set(name, html.UnescapeString(chosen[2]))
		f.prefilled = true
		return
	}
	if name := field[5]; name != "" {
		f.values.Set(name, strings.ReplaceAll(html.UnescapeString(field[6]), "\n", "\r\n")) // as a browser ends lines
		f.prefilled = true
		return
	}
	is := map[string]string{}
	for _, one := range attributes.FindAllStringSubmatch(field[2], -1) {
		is[one[1]] = html.UnescapeString(one[2])
	}
	_, checked := is["checked"]
	switch {
	case is["name"] == "", is["type"] == "checkbox" && !checked:
		return
	}
	f.values.Add(is["name"], is["value"])
	f.prefilled = f.prefilled || field[1] == "input" && is["type"] == "" && is["value"] != ""
}
