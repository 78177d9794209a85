package apply

import (
	"bytes"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

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
		"not fields":         {"queues:\n  mail: 5\n", "standard input:2: queue mail: must have fields, is 5"},
		"an action":          {"queues:\n  q: {mode: push, push: {url: \"https://example.com\", new_secret: true}}\n", "standard input:2: queue q: push.new_secret: is no setting"},
		"twice in one":       {"queues:\n  mail: {}\n  mail: {}\n", "standard input:3:"},
		"twice in two":       {"queues:\n  mail: {}\n---\nqueues:\n  mail: {}\n", "standard input:5: queue mail: is in the file twice"},
		"two labels":         {"label: a\n---\nlabel: b\n", "standard input:3: label: a file has one label, and a stands above"},
		"a label":            {"label: a b\n", "standard input:1: label: must be 1 to 64"},
		"a label of one":     {"queues:\n  mail: {label: a b}\n", "standard input:2: queue mail: label: must be 1 to 64"},
		"no YAML":            {"queues:\n  mail: {\n", "standard input:"},
		"no mapping":         {"- a\n", "standard input:1: must have members such as queues:"},
		"empty":              {"", "standard input: has no objects"},
		"all that is wrong":  {"queues:\n  a: {max_runnning: 5}\n  b: {max_actve: 5}\n", "standard input:3: queue b: max_actve"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := read("-", strings.NewReader(one.file), kinds())
			if err == nil || !strings.Contains(err.Error(), one.want) {
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
