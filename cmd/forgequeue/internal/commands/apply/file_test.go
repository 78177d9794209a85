package apply

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/forgequeue/forgequeue/shared/api"
)

// payload begins a file with a value of a payload.
const payload = "schedules:\n  s: {every_ms: 60000, job: {type: t, payload: "

// bomb is a file with aliases of aliases.
func bomb() string {
	text := "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
	for i := range 12 {
		text += fmt.Sprintf("a%d: &a%[1]d [%s*a%d]\n", i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	return text
}

func TestAFileThatIsWrongIsRefusedWithTheLineAndWhatToChange(t *testing.T) {
	for name, one := range map[string]struct{ file, want string }{
		"unknown field":      {"queues:\n  mail:\n    max_runnning: 5\n", "standard input:3: queue mail: max_runnning: there is no such field; there are costs, keys, label, max_active, max_attempts,"},
		"unknown inside":     {"queues:\n  mail:\n    retry:\n      base: 5\n", "standard input:4: queue mail: retry.base: there is no such field; there are base_ms, cap_ms, curve, jitter"},
		"unknown in a map":   {"queues:\n  mail:\n    types:\n      a.b: {max: 5}\n", "standard input:4: queue mail: types.a.b.max: there is no such field"},
		"the API's case":     {"queues:\n  mail:\n    Max_Running: 5\n", "Max_Running: there is no such field"},
		"unknown in a limit": {"tenants:\n  Shop:\n    overrides:\n      users:\n        ada: {max_jobs: 1}\n", "standard input:5: tenant Shop: overrides.users.ada.max_jobs: there is no such field"},
		"unknown section":    {"label: a\nqueue:\n  mail: {}\n", `standard input:2: there is no "queue" in a file; there are label, plans, tenants, budgets, queues, types, webhooks, schedules`},
		"a value":            {"queues:\n  mail:\n    retry:\n      base_ms: 0\n", "standard input:4: queue mail: retry.base_ms: must be between 1 and 604800000"},
		"a value of a list":  {"schedules:\n  s:\n    every_ms: 1000\n    job:\n      type: a\n      tags:\n        - a\n        - b c\n", "standard input:8: schedule s: job.tags[1]: must be 1 to 128"},
		"a type":             {"queues:\n  mail:\n    max_running: \"5\"\n", "standard input:3: queue mail: max_running: must be a whole number, is a string"},
		"a fraction":         {"queues:\n  mail:\n    max_running: 1.5\n", "standard input:3: queue mail: max_running: must be a whole number, is a number 1.5"},
		"no quotes":          {"budgets:\n  b: {unit: no, amount: 5, per_ms: 1000, timezone: 5}\n", "standard input:2: budget b: timezone: must be a string (in quotes), is a number"},
		"a time":             {"schedules:\n  s: {every_ms: 1000, job: {type: a}, starts_at: tomorrow}\n", "standard input:2: schedule s: a time is RFC 3339"},
		"a name":             {"queues:\n  _mail: {}\n", "standard input:2: queue _mail: the name must be"},
		"a title":            {"tenants:\n  \"\": {}\n", "standard input:2: tenant : name: must be 1 to 128 characters"},
		"a list":             {"queues:\n  - mail\n", "standard input:1: queues: must have the objects by name, is a list"},
		"not fields":         {"queues:\n  mail: 5\n", "standard input:2: queue mail: must have fields, is a number"},
		"a secret":           {"queues: {b: amqps://me:pw@host}\n", "standard input:1: queue b: must have fields, is a string"},
		"a secret section":   {"label: a\nqueues: amqps://me:pw@host\n", "standard input:2: queues: must have the objects by name, is a string"},
		"an exponent":        {payload + "1e3}}\n", "standard input:2: this is a string in YAML: write it in quotes"},
		"a small exponent":   {payload + "[\n    -1e-7]}}\n", "standard input:3: this is a string in YAML"},
		"a large number":     {payload + "18446744073709551616}}\n", "standard input:2: this is a string in YAML"},
		"an octal number":    {payload + "01234}}\n", "standard input:2: a number is written in decimal digits"},
		"a hex number":       {payload + "0x1F}}\n", "standard input:2: a number is written in decimal digits"},
		"underscores":        {payload + "1_000}}\n", "standard input:2: a number is written in decimal digits"},
		"a tag":              {payload + "!!int 5}}\n", "standard input:2: tags are not read"},
		"a key: a number":    {"queues:\n  1.10: {}\n", "standard input:2: a name that YAML takes for something else than a string is written in quotes"},
		"a key: octal":       {"queues:\n  007: {}\n", "standard input:2: a name that YAML takes"},
		"a key: exponent":    {"queues:\n  1e3: {}\n", "standard input:2: a name that is a number"},
		"a key: true":        {"queues:\n  true: {}\n", "standard input:2: a name that YAML takes"},
		"a key: null":        {"queues:\n  a:\n    types:\n      null: {}\n", "standard input:4: a name that YAML takes"},
		"a late merge":       {"queues:\n  a: &a {max_running: 5}\n  b:\n    max_running: 7\n    <<: *a\n", "standard input:5: << stands before the other fields"},
		"a merge of two":     {"queues:\n  a: &a {max_running: 5}\n  b:\n    <<: [*a, *a]\n", "standard input:4: << stands before the other fields"},
		"many aliases":       {bomb(), "stand for more than 100000 values"},

		"an action":         {"queues:\n  q: {mode: push, push: {url: \"https://example.com\", new_secret: true}}\n", "standard input:2: queue q: push.new_secret: is no setting"},
		"twice in one":      {"queues:\n  mail: {}\n  mail: {}\n", "standard input:3:"},
		"twice in two":      {"queues:\n  mail: {}\n---\nqueues:\n  mail: {}\n", "standard input:5: queue mail: is in the file twice"},
		"two labels":        {"label: a\n---\nlabel: b\n", "standard input:3: label: a file has one label, and a stands above"},
		"a label":           {"label: a b\n", "standard input:1: label: must be 1 to 64"},
		"a label of one":    {"queues:\n  mail: {label: a b}\n", "standard input:2: queue mail: label: must be 1 to 64"},
		"no YAML":           {"queues:\n  mail: {\n", "standard input:"},
		"no mapping":        {"- a\n", "standard input:1: must have members such as queues:"},
		"empty":             {"", "standard input: has no objects"},
		"all that is wrong": {"queues:\n  a: {max_runnning: 5}\n  b: {max_actve: 5}\n", "standard input:3: queue b: max_actve"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := read("-", strings.NewReader(one.file), kinds())
			if err == nil || !strings.Contains(err.Error(), one.want) || strings.Contains(err.Error(), "pw@host") {
				t.Errorf("%v %+v, want %q", err, f, one.want)
			}
		})
	}
}

func TestJSONAndAnchorsAndSeveralDocumentsAreRead(t *testing.T) {
	f, err := read("-", strings.NewReader("{\n\t\"label\": \"a\",\n\t\"queues\": {\"q\": {\"max_running\": 5, \"label\": null}}\n}\n"), kinds())
	if err != nil || f.label != "a" || len(f.objects) != 1 {
		t.Fatal(err, f)
	}
	f, err = read("-", strings.NewReader("label: a\nqueues:\n  p: &p\n    max_running: 5\n  q:\n    <<: *p\n    max_active: 7\n  r:\n---\n---\nlabel: a\nschedules:\n  s: {every_ms: 1000, job: {type: t}, starts_at: 2026-11-20T12:00:00Z}\n"), kinds())
	if err != nil {
		t.Fatal(err)
	}
	for k, objects := range f.objects {
		for name, one := range objects {
			if one.settings.label() != "a" {
				t.Errorf("%s %s: %+v", k.noun, name, one.settings.tree)
			}
		}
	}
	for of := range f.objects {
		if of.noun != "queue" {
			continue
		}
		want, _, err := of.decode("q", []byte(`{"max_running":5,"max_active":7,"label":"a"}`))
		if err != nil || len(differences("", want.tree, f.objects[of]["q"].settings.tree)) > 0 {
			t.Errorf("%v %+v", err, f.objects)
		}
	}
}

func TestNumbersAndNamesStayAsTheyAreWritten(t *testing.T) {
	for name, one := range map[string]struct{ file, want string }{
		"JSON":        {`{"schedules": {"s": {"every_ms": 60000, "job": {"type": "t", "payload": {"1.10": [1e3, 1e-7, 18446744073709551616, "007", 2.50]}}}}}`, `{"1.10":[1e3,1e-7,18446744073709551616,"007",2.50]}`},
		"YAML":        {payload + "{\"1.10\": [1.0e+3, -0.5, 18446744073709551615, '1e3', \"007\", 1.2.3, 1e, true]}}}\n", `{"1.10":[1000,-0.5,18446744073709551615,"1e3","007","1.2.3","1e",true]}`},
		"long string": {payload + "x}}\n  s2:\n    every_ms: 60000\n    job:\n      type: t\n      payload: |\n        1e3\n", `"x"`},
	} {
		f, err := read("-", strings.NewReader(one.file), kinds())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, objects := range f.objects {
			request, _ := objects["s"].settings.request.(api.ScheduleRequest)
			if string(request.Job.Payload) != one.want {
				t.Errorf("%s: %s, want %s", name, request.Job.Payload, one.want)
			}
		}
	}
	_, err := read("-", strings.NewReader("{\n\"queues\": {\"a\": {\n\"max_running\": 1.5}}}"), kinds())
	if err == nil || !strings.Contains(err.Error(), "standard input:3: queue a: max_running: must be a whole number") {
		t.Error(err)
	}
}

func TestTheLabelOfALaterDocumentIsThatOfAllObjects(t *testing.T) {
	f, err := read("-", strings.NewReader("queues:\n  a: {}\n---\nlabel: late\nbudgets:\n  b: {unit: calls, amount: 1, window: hour}\n"), kinds())
	if err != nil {
		t.Fatal(err)
	}
	for k, objects := range f.objects {
		for name, one := range objects {
			if one.settings.label() != "late" {
				t.Errorf("%s %s: %+v", k.noun, name, one.settings.tree)
			}
		}
	}
}

// never are fields that a file may have, and that no other run sees: secrets, and what is refused.
var never = []string{"queues.push.new_secret", "tenants.cell"}

func TestTheFileOfAllFieldsHasEachFieldOfEachKind(t *testing.T) {
	content, err := os.ReadFile("testdata/all.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]map[string]any
	if err := yaml.Unmarshal(bytes.TrimPrefix(content, []byte("label: everything\n")), &document); err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds() {
		var has []string
		for _, one := range document[k.section] {
			has = append(has, leaves(k.section, one, k.body)...)
		}
		for _, field := range every(k.section, k.body) {
			if !slices.Contains(has, field) && !slices.Contains(never, field) && field != k.section+".label" {
				t.Errorf("testdata/all.yaml does not set %s: is it read back, and is its default known?", field)
			}
		}
		if _, least := document[k.section]["least"]; !least && !k.operator {
			t.Errorf("no %s has only what it must have", k.noun)
		}
	}
}

// every is the path of each field of a request, without names and places.
func every(path string, t reflect.Type) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Map || t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 {
		t = t.Elem()
	}
	var all []string
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reads) {
		return []string{path}
	}
	for name, of := range members(t) {
		all = append(all, every(path+"."+name, of)...)
	}
	return all
}

// leaves are the same of a value.
func leaves(path string, value any, t reflect.Type) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	fields, isMap := value.(map[string]any)
	list, isList := value.([]any)
	var all []string
	switch {
	case reflect.PointerTo(t).Implements(reads):
	case isMap && t.Kind() == reflect.Struct:
		for name, of := range members(t) {
			if inner, has := fields[name]; has {
				all = append(all, leaves(path+"."+name, inner, of)...)
			}
		}
		return all
	case isMap && t.Kind() == reflect.Map:
		for inner := range maps.Values(fields) {
			all = append(all, leaves(path, inner, t.Elem())...)
		}
		return all
	case isList && t.Kind() == reflect.Slice:
		for _, inner := range list {
			all = append(all, leaves(path, inner, t.Elem())...)
		}
		return all
	}
	return []string{path}
}
