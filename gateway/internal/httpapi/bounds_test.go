package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// bounds is what api-docs/gateway.json says of a field: it is written from the rules of shared/api.
type bounds struct {
	Ref           string            `json:"$ref"`
	Type, Pattern string            // Pattern is of a string
	Enum          []any             `json:"enum"`
	Minimum       *float64          `json:"minimum"`
	Maximum       *float64          `json:"maximum"`
	Above         bool              `json:"exclusiveMinimum"`
	MinLength     int               `json:"minLength"`
	MaxLength     *int              `json:"maxLength"`
	MinItems      int               `json:"minItems"`
	MaxItems      *int              `json:"maxItems"`
	MaxProperties *int              `json:"maxProperties"`
	Properties    map[string]bounds `json:"properties"`
	Additional    json.RawMessage   `json:"additionalProperties"`
	Items         *bounds           `json:"items"`
	AllOf, OneOf  []bounds
}

// allows says whether a string keeps to the document.
func (b *bounds) allows(text string) bool {
	return (b.Pattern == "" || regexp.MustCompile(b.Pattern).MatchString(text)) && (b.Enum == nil || slices.Contains(b.Enum, any(text))) &&
		utf8.RuneCountInString(text) >= b.MinLength && (b.MaxLength == nil || utf8.RuneCountInString(text) <= *b.MaxLength)
}

// bounded is a field of a request that is bounded.
type bounded struct {
	bounds

	at []string // as with takes it
}

// boundedOf lists those of a schema.
func boundedOf(schemas map[string]bounds, of bounds, at []string) []bounded {
	if name, ok := strings.CutPrefix(of.Ref, "#/components/schemas/"); ok {
		of = schemas[name]
	}
	var all []bounded
	if of.Pattern != "" || of.Enum != nil || of.Maximum != nil || of.MinLength > 0 || of.MaxLength != nil || of.MaxItems != nil || of.MaxProperties != nil {
		all = append(all, bounded{of, at})
	}
	step := func(of bounds, name string) {
		all = append(all, boundedOf(schemas, of, append(slices.Clip(at), name))...)
	}
	for _, part := range slices.Concat(of.AllOf, of.OneOf) {
		all = append(all, boundedOf(schemas, part, at)...)
	}
	if of.Items != nil {
		step(*of.Items, "0")
	}
	for name, property := range of.Properties {
		step(property, name)
	}
	var more bounds
	if json.Unmarshal(of.Additional, &more) == nil {
		step(more, "k")
	}
	return all
}

const anID = "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"

// furtherExamples have what the document's examples have not, by route.
func furtherExamples() map[string][]string {
	const after, ref = `"type":"t","after":[{"job_id":"` + anID + `"}]`, `{"ref":"r","type":"t","after":[{"ref":"other"}]}`
	const outcome = `{"outcomes":[{"job_id":"` + anID + `","lease_token":"l","kind":`
	const dedupe = `"type":"t","dedupe":{"key":"k","on_live":"extend"}`
	const windows = `"windows":[{"cron":"* * * * *","duration_ms":60000,"timezone":"UTC"}]`
	const more = `"submit":[{` + after + `}],"signal":[{"job_id":"` + anID + `","name":"n"}]`
	return map[string][]string{
		"PUT /v1/queues/{name}":        {`{"keys":{"order":"fifo"}}`, `{"keys":{"rate_per_second":1}}`, `{` + windows + `}`},
		"POST /v1/jobs":                {`{` + after + `}`, `{` + dedupe + `}`},
		"POST /v1/jobs/batch":          {`{"jobs":[{` + after + `}]}`, `{"jobs":[{` + dedupe + `}]}`},
		"POST /v1/jobs/{id}/rerun":     {`{` + after + `}`, `{` + dedupe + `}`},
		"POST /v1/workflows":           {`{"jobs":[` + ref + `,{"ref":"other","type":"t"}]}`},
		"POST /v1/workflows/{id}/jobs": {`{"jobs":[` + ref + `]}`},
		"POST /v1/jobs/{id}/complete":  {`{"lease_token":"l",` + more + `}`, `{"lease_token":"l","submit":[{` + dedupe + `}]}`},
		"POST /v1/jobs/{id}/wait":      {`{"lease_token":"l","timeout_ms":1,` + more + `}`, `{"lease_token":"l","timeout_ms":1,"submit":[{` + dedupe + `}]}`},
		"PUT /v1/schedules/{name}":     {`{"cron":"* * * * *","job":{` + dedupe + `}}`, `{"cron":"* * * * *","job":{"type":"t"},` + windows + `}`},
		"POST /v1/jobs/{id}/output":    {`{"lease_token":"l","chunks":[{"seq":1,"stream":"out","text":"t"}]}`},
		"POST /v1/outcomes": {
			outcome + `"snooze","delay_ms":1}]}`, outcome + `"release"}]}`, outcome + `"complete","submit":[{"type":"t"}]}]}`, outcome + `"complete",` + more + `}]}`, outcome + `"complete","submit":[{` + dedupe + `}]}]}`,
			outcome + `"wait","timeout_ms":1,"for":["n"],"mode":"all"}]}`,
		},
	}
}

// A request is refused where a field is outside what the document says of it, with the field's name, and accepted where
// it is just inside. This is the proof of each field's rule: of length, characters, words, numbers and entries.
func TestEveryBoundOfTheDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/gateway.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]struct {
			RequestBody *struct {
				Content map[string]struct {
					Schema   bounds                         `json:"schema"`
					Examples map[string]struct{ Value any } `json:"examples"`
				} `json:"content"`
			} `json:"requestBody"`
		} `json:"paths"`
		Components struct {
			Schemas map[string]bounds `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	d := newDoor(t)
	key, tried := d.key(api.Scopes()...), 0
	for path, operations := range document.Paths {
		for method, operation := range operations {
			if operation.RequestBody == nil {
				continue
			}
			content, route := operation.RequestBody.Content["application/json"], strings.ToUpper(method)+" "+path
			try := tries{d: d, route: route, key: key}
			if table[route].operator {
				try.key = operatorKey
			}
			for _, name := range slices.Sorted(maps.Keys(content.Examples)) {
				try.examples = append(try.examples, content.Examples[name].Value)
			}
			for _, more := range furtherExamples()[route] {
				try.examples = append(try.examples, decoded(t, more))
			}
			for _, field := range boundedOf(document.Components.Schemas, content.Schema, nil) {
				tried++
				try.field(field)
			}
		}
	}
	if unbounded := numbersWithout(document.Components.Schemas); len(unbounded) > 0 {
		t.Errorf("numbers of requests without a rule: %q", unbounded)
	}
	if tried < 150 {
		t.Errorf("only %d fields: where are the others?", tried)
	}
}

// numbersWithout names the numbers of requests that have no bounds. Schemas of requests are those that allow no other
// members.
func numbersWithout(schemas map[string]bounds) (names []string) {
	for schema, of := range schemas {
		for name, field := range of.Properties {
			if string(of.Additional) == "false" && (field.Type == "integer" || field.Type == "number") && field.Maximum == nil {
				names = append(names, schema+"."+name)
			}
		}
	}
	slices.Sort(names)
	return names
}

func decoded(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// tries sends bodies to a route.
type tries struct {
	d          *door
	route, key string
	examples   []any
}

// send says whether a body is refused, and with which message for a field or what is inside it.
func (t *tries) send(body any, at []string) (refused bool, message string) {
	t.d.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.d.t.Fatal(err)
	}
	method, path, _ := strings.Cut(t.route, " ")
	path = strings.NewReplacer("{id}", jobID, "{worker_id}", "w", "{user}", "ada", "{name}", "q", "{type}", "t").Replace(path)
	got := t.d.do(method, path, t.key, string(text))
	var answer struct {
		problem.Problem

		Results []struct{ Problem *problem.Problem }
	}
	_ = json.Unmarshal(got.body, &answer)
	found := answer.Problem
	if len(answer.Results) > 0 && answer.Results[0].Problem != nil { // each item by itself
		found = *answer.Results[0].Problem
	}
	if found.Status != 400 {
		return false, ""
	}
	for _, wrong := range found.Errors {
		if name := pathName(at); wrong.Field == name || wrong.Field == pathName(at[:len(at)-1]) || strings.HasPrefix(wrong.Field, name+"[") || strings.HasPrefix(wrong.Field, name+".") {
			message = wrong.Message
		}
	}
	return true, message
}

// field tries one field: some example takes each good value, and with each bad one in its place it is refused.
func (t *tries) field(f bounded) {
	t.d.t.Helper()
	where := pathName(f.at)
	if strings.Contains(t.route, "/workflows") && strings.HasPrefix(where, "jobs[0].dedupe") || strings.HasSuffix(t.route, "/discard") && strings.HasPrefix(where, "canary.") {
		return // is never allowed there
	}
	good, bad := t.samples(&f)
	var base any
	for _, value := range good {
		taken := slices.IndexFunc(t.examples, func(example any) bool {
			refused, _ := t.send(put(example, f.at, value), f.at)
			return !refused
		})
		if taken < 0 {
			t.d.t.Errorf("%s %s: %.80v is refused in each example", t.route, where, value)
			continue
		}
		base = t.examples[taken]
	}
	if base == nil {
		t.d.t.Errorf("%s %s: no example takes it: add one", t.route, where)
		return
	}
	for _, value := range bad {
		if refused, message := t.send(put(base, f.at, value), f.at); !refused || message == "" {
			t.d.t.Errorf("%s %s: %.80q: refused %v, with %q", t.route, where, fmt.Sprint(value), refused, message)
		}
	}
}

// put puts a value into a copy of a body.
func put(body any, at []string, value any) any {
	if len(at) == 0 {
		return value
	}
	if at[0] == "0" {
		list, _ := body.([]any)
		if len(list) == 0 {
			list = []any{nil}
		}
		if job, _ := list[0].(map[string]any); job["ref"] == nil {
			list = list[:1] // alone: the other items of a batch are good
		}
		list = slices.Clone(list)
		list[0] = put(list[0], at[1:], value)
		return list
	}
	object := map[string]any{}
	if given, ok := body.(map[string]any); ok {
		maps.Copy(object, given)
	}
	object[at[0]] = put(object[at[0]], at[1:], value)
	return object
}

// samples are values inside and outside the bounds.
func (t *tries) samples(f *bounded) (good, bad []any) {
	switch {
	case f.Maximum != nil:
		step := 1.0
		if f.Type == "number" {
			step = 0.0005
		}
		good, bad = []any{*f.Maximum}, []any{*f.Maximum + 1, *f.Minimum - step}
		if f.Above {
			return append(good, *f.Minimum+step), append(bad, *f.Minimum)
		}
		return append(good, *f.Minimum), bad
	case f.MaxItems != nil:
		bad = append(bad, t.entries(f, *f.MaxItems+1))
		if f.MinItems > 0 {
			bad = append(bad, t.entries(f, f.MinItems-1))
		}
		if good = append(good, t.entries(f, f.MinItems)); t.route != "POST /v1/workflows" || f.name() != "after" { // its refs would have to be jobs
			good = append(good, t.entries(f, *f.MaxItems))
		}
		return good, bad
	case f.MaxProperties != nil:
		var value any = "v"
		switch {
		case f.name() == "throttle":
			value = map[string]any{"retry_after_ms": 1}
		case strings.Contains(string(f.Additional), `"integer"`):
			value = 1
		}
		entries := map[string]any{}
		for i := range *f.MaxProperties {
			entries[fmt.Sprint("k", i)] = value
		}
		more := maps.Clone(entries)
		more["k"] = value
		return []any{entries}, []any{more, map[string]any{"a b": value}}
	}
	return t.texts(f)
}

func (f *bounded) name() string { return f.at[len(f.at)-1] }

// entries are so many good ones of a list.
func (t *tries) entries(f *bounded, n int) []any {
	list := make([]any, n)
	for i := range list {
		switch id := fmt.Sprintf("01980a5c-7b1e-7cc0-9d5e-%012d", i); {
		case f.Items.Enum != nil:
			list[i] = f.Items.Enum[i%len(f.Items.Enum)]
		case f.name() == "jobs" && strings.Contains(t.route, "workflow"):
			list[i] = map[string]any{"type": "t", "ref": fmt.Sprint("r", i)}
		case f.name() == "jobs" || f.name() == "submit":
			list[i] = map[string]any{"type": "t"}
		case f.name() == "after" && strings.Contains(t.route, "workflow"):
			list[i] = fmt.Sprint("r", i)
		case f.name() == "ids" || f.name() == "after":
			list[i] = id
		case f.name() == "chunks":
			list[i] = map[string]any{"seq": i + 1, "stream": "out", "text": "t"}
		case f.name() == "signal":
			list[i] = map[string]any{"job_id": id, "name": "n"}
		case f.name() == "leases" || f.name() == "outcomes":
			list[i] = map[string]any{"job_id": id, "lease_token": "l"}
			if f.name() == "outcomes" {
				list[i] = map[string]any{"job_id": id, "lease_token": "l", "kind": "complete"}
			}
		case f.name() == "windows":
			list[i] = map[string]any{"cron": "* * * * *", "duration_ms": 60_000}
		case f.name() == "examples":
			list[i] = map[string]any{}
		default:
			list[i] = fmt.Sprint("n", i)
		}
	}
	return list
}

// texts are strings of all kinds, by what the document says of them.
func (t *tries) texts(f *bounded) (good, bad []any) {
	candidates := []string{
		"", "a", "a b", "-", "_webhook.w", "_webhook.", "_a", "é", "a\nb", "\x7f",
		strings.Repeat("a", 64), strings.Repeat("a", 65), strings.Repeat("a", 128), strings.Repeat("a", 129), strings.Repeat("é", 128),
	}
	if f.MaxLength != nil {
		candidates = append(candidates, strings.Repeat("a", *f.MaxLength), strings.Repeat("a", *f.MaxLength+1))
	}
	for _, word := range f.Enum {
		if text, ok := word.(string); ok {
			candidates = append(candidates, text)
		}
	}
	// Of these the document cannot say all.
	own := map[string]string{"url": "https://example.com/jobs", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}[f.name()]
	if t.route == "POST /v1/workflows" && strings.Contains(pathName(f.at), ".after[0]") && f.Enum == nil {
		own = "other" // there are no others
	}
	if own != "" {
		good = []any{own}
	}
	// "" is as absent.
	absent := slices.Contains([]string{
		"jobs[0].queue", "job.queue", "submit[0].queue", "outcomes[0].submit[0].queue",
		"after[0].on_failed", "jobs[0].after[0].on_failed", "submit[0].after[0].on_failed", "outcomes[0].submit[0].after[0].on_failed", "timezone", "windows[0].timezone", "overlap", "catch_up", "outcomes[0].mode", "title",
	}, pathName(f.at)) || strings.HasSuffix(pathName(f.at), "dedupe.on_live") || f.name() == "queue" && len(f.at) == 1 && t.route != "PATCH /v1/jobs/{id}" || t.route == "POST /v1/workflows" && f.name() == "name" || strings.HasSuffix(t.route, "/rerun") && f.name() == "type" || strings.HasSuffix(t.route, "/wait") && f.name() == "mode"
	for _, text := range candidates {
		switch {
		case f.allows(text) && own != "":
		case f.allows(text) || text == "" && absent:
			good = append(good, text)
		default:
			bad = append(bad, text)
		}
	}
	return good, bad
}
