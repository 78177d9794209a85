// Package wirejsontest draws values for tests that compare a text with that of its type.
package wirejsontest

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// Values draws n values: the first with all of its fields, the others with half of what may be left out. A new field is
// drawn as the others are.
func Values[T any](t *testing.T, n int) []T {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	values := make([]T, n)
	for i := range values {
		fill(t, random, reflect.ValueOf(&values[i]).Elem(), i == 0)
	}
	return values
}

func fill(t *testing.T, random *rand.Rand, v reflect.Value, whole bool) {
	t.Helper()
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.UnixMicro(random.Int64N(4e15)).UTC()))
		return
	case reflect.TypeFor[json.RawMessage]():
		texts := []string{`{"a":"\u00e9 b"}`, ` [ 1, {"x" : 1e3} ]`, `"<&>"`, "null", "12.50"}
		v.SetBytes([]byte(texts[random.IntN(len(texts))]))
		return
	}
	skip := !whole && random.IntN(2) == 0
	switch v.Kind() {
	case reflect.Pointer:
		if !skip {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, random, v.Elem(), whole)
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(t, random, field, whole)
		}
	case reflect.Slice:
		if skip {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), random.IntN(3), 3))
		for i := range v.Len() {
			fill(t, random, v.Index(i), whole)
		}
	case reflect.Map:
		if skip {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for range random.IntN(3) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(t, random, key, true)
			fill(t, random, value, true)
			v.SetMapIndex(key, value)
		}
	default:
		fillPlain(t, random, v)
	}
}

func fillPlain(t *testing.T, random *rand.Rand, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		texts := []string{"", "a", `with "quotes" and \`, "<&>\u2028\n", "日本 \x7f", "12"}
		v.SetString(texts[random.IntN(len(texts))])
	case reflect.Int, reflect.Int64:
		v.SetInt(random.Int64() >> random.IntN(64))
	case reflect.Float64:
		v.SetFloat([]float64{0, 0.2, 1, 1e21, 1.5e-9, random.Float64()}[random.IntN(6)])
	case reflect.Bool:
		v.SetBool(random.IntN(2) == 0)
	default:
		t.Fatalf("%v: draw one", v.Type())
	}
}
