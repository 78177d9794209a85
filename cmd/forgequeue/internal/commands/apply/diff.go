package apply

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
)

// field is a setting that differs; nil is one that is absent.
type field struct {
	Field string          `json:"field"`
	From  json.RawMessage `json:"from"`
	To    json.RawMessage `json:"to"`
}

func (f *field) String() string {
	return fmt.Sprintf("%s %s -> %s", f.Field, brief(f.From), brief(f.To))
}

// brief is a value on a part of a line.
func brief(value json.RawMessage) string {
	if value == nil {
		return "none"
	}
	text := string(value)
	if plain, err := strconv.Unquote(text); err == nil && plain != "" && !strings.ContainsAny(plain, " \n") {
		text = plain
	}
	return cli.Brief(text)
}

// differences are the settings in which two trees differ, in the order of their names.
func differences(path string, from, to any) []field {
	before, isMap := from.(map[string]any)
	after, areMaps := to.(map[string]any)
	if !isMap || !areMaps {
		if text, ok := from.(string); ok && path == "push.url" && !contains(to, credentials) {
			from = strings.Replace(text, credentials, "", 1) // those that are there stay
		}
		if same(from, to) {
			return nil
		}
		return []field{{path, raw(from, true), raw(to, true)}}
	}
	names := maps.Clone(before)
	maps.Copy(names, after)
	var all []field
	for _, name := range slices.Sorted(maps.Keys(names)) {
		inner := strings.TrimPrefix(path+"."+name, ".")
		old, was := before[name]
		now, is := after[name]
		if was && is {
			all = append(all, differences(inner, old, now)...)
		} else {
			all = append(all, field{inner, raw(old, was), raw(now, is)})
		}
	}
	return all
}

func contains(value any, part string) bool {
	text, ok := value.(string)
	return ok && strings.Contains(text, part)
}

func raw(value any, there bool) json.RawMessage {
	if !there {
		return nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // it was read from JSON
	return bytes.TrimSpace(text.Bytes())
}

// same compares JSON values: 1.0 is 1.
func same(a, b any) bool {
	switch one := a.(type) {
	case map[string]any:
		other, ok := b.(map[string]any)
		return ok && maps.EqualFunc(one, other, same)
	case []any:
		other, ok := b.([]any)
		return ok && slices.EqualFunc(one, other, same)
	case json.Number:
		other, ok := b.(json.Number)
		return ok && sameNumber(one.String(), other.String())
	}
	return reflect.DeepEqual(a, b)
}

func sameNumber(a, b string) bool {
	if a == b || !strings.ContainsAny(a+b, ".eE") {
		return a == b
	}
	one, err := strconv.ParseFloat(a, 64)
	other, otherErr := strconv.ParseFloat(b, 64)
	return err == nil && otherErr == nil && one == other
}
