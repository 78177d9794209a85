package api_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
)

// fill sets each field to a value that is not the zero one.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		one := reflect.New(v.Type().Elem()).Elem()
		fill(one)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), one)
	case reflect.String:
		v.SetString("text")
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Bool:
		v.SetBool(true)
	default:
		panic(v.Kind())
	}
}

func asMap(t *testing.T, value any) (m map[string]any) {
	t.Helper()
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The request has each of the settings: one that it lacked would be reset by a PUT.
func TestSettingsAsARequest(t *testing.T) {
	t.Parallel()
	var settings api.QueueSettings
	fill(reflect.ValueOf(&settings).Elem())
	want := asMap(t, settings)
	want["mode"] = "push"
	push := want["push"].(map[string]any)
	delete(push, "secret")
	delete(push, "credentials_set")
	if got := asMap(t, settings.Request()); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	settings.Push = nil
	if got := asMap(t, settings.Request()); got["mode"] != "pull" || got["push"] != nil {
		t.Errorf("%v", got)
	}
}

// All has each of the limits, under its name in JSON.
func TestAllLimits(t *testing.T) {
	t.Parallel()
	var limits api.Limits
	for i, one := range limits.All() {
		if one.Rate != nil {
			*one.Rate = new(float64(i))
		} else {
			*one.Count = new(int64(i))
		}
	}
	got := asMap(t, limits)
	if len(got) != reflect.TypeFor[api.Limits]().NumField() || len(got) != len(limits.All()) {
		t.Errorf("%d limits of %d: %v", len(limits.All()), reflect.TypeFor[api.Limits]().NumField(), got)
	}
	for i, one := range limits.All() {
		if got[one.Name] != float64(i) {
			t.Errorf("%s is %v, want %d", one.Name, got[one.Name], i)
		}
	}
}
