package mask

import (
	"encoding/json"
	"reflect"
	"sync"

	"github.com/forgequeue/forgequeue/shared/server/jobtype"
)

// tag is that of the fields, see the package.
const tag = "sensitive"

// What a field is.
const (
	ofPayload = "payload"
	ofResult  = "result"
	ofAll     = "all"
	ofType    = "type"
)

var rawType = reflect.TypeFor[json.RawMessage]()

// walk goes through an answer. What it changes it copies: an answer may share memory with another caller's.
type walk struct {
	view *View
	// needs collects the types whose schemas are needed, where not nil: then nothing is changed.
	needs map[string]bool
	// done ends the masking: what is left is hidden as a whole.
	done <-chan struct{}
}

func (w *walk) over() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// value masks a value; jobType is that of the job that it is of, empty where that is not known.
func (w *walk) value(v reflect.Value, jobType string) {
	if !carries(v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			made := reflect.New(v.Type().Elem())
			made.Elem().Set(v.Elem())
			w.value(made.Elem(), jobType)
			w.set(v, made)
		}
	case reflect.Slice:
		if v.IsNil() {
			return
		}
		made := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(made, v)
		for i := range made.Len() {
			w.value(made.Index(i), jobType)
		}
		w.set(v, made)
	case reflect.Struct:
		p := planOf(v.Type())
		if p.jobType != nil {
			jobType = v.FieldByIndex(p.jobType).String()
		}
		for _, i := range p.below {
			w.value(v.Field(i), jobType)
		}
		for _, field := range p.sensitive {
			w.hide(v.Field(field.place), field.what, jobType)
		}
	default: // nothing else carries a tag
	}
}

// set puts a copy in its place, unless types are only collected.
func (w *walk) set(v, made reflect.Value) {
	if w.needs == nil {
		v.Set(made)
	}
}

// hide masks a field that is tagged.
func (w *walk) hide(v reflect.Value, what, jobType string) {
	if jobType != "" && !w.view.Hides(jobType) {
		return
	}
	if w.needs != nil {
		if jobType != "" && what != ofAll {
			w.needs[jobType] = true
		}
		return
	}
	switch {
	case v.Type() == rawType:
		v.SetBytes(w.view.show(v.Bytes(), jobType, what, w.over()))
	case v.Kind() == reflect.Slice && v.Type().Elem() == rawType:
		made := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			made.Index(i).SetBytes(w.view.show(v.Index(i).Bytes(), jobType, what, w.over()))
		}
		v.Set(made)
	case v.Kind() == reflect.Pointer:
		if !v.IsNil() {
			v.Set(reflect.ValueOf(new(jobtype.Hidden)))
		}
	case v.String() != "":
		v.SetString(jobtype.Hidden)
	}
}

// plan is what there is to do in a struct.
type plan struct {
	// jobType is the index of the field with the job's type, nil where there is none.
	jobType []int
	// below are the fields that are walked, sensitive those that are tagged.
	below     []int
	sensitive []taggedField
}

type taggedField struct {
	place int
	what  string
}

var (
	plans   sync.Map // of *plan by reflect.Type
	carried sync.Map // of bool by reflect.Type
)

func planOf(t reflect.Type) *plan {
	if known, ok := plans.Load(t); ok {
		return known.(*plan) //nolint:forcetypeassert // the map holds nothing else
	}
	made := &plan{}
	for _, field := range reflect.VisibleFields(t) {
		if field.Tag.Get(tag) == ofType {
			made.jobType = field.Index
		}
	}
	for i := range t.NumField() {
		field := t.Field(i)
		switch what := field.Tag.Get(tag); what {
		case ofPayload, ofResult, ofAll:
			made.sensitive = append(made.sensitive, taggedField{i, what})
		case "":
			if field.IsExported() && carries(field.Type) {
				made.below = append(made.below, i)
			}
		}
	}
	plans.Store(t, made)
	return made
}

// carries says whether a type has a tagged field anywhere, or is the answer to a submit.
func carries(t reflect.Type) bool {
	if known, ok := carried.Load(t); ok {
		return known.(bool) //nolint:forcetypeassert // the map holds nothing else
	}
	found := t == rawType || find(t, map[reflect.Type]bool{})
	carried.Store(t, found)
	return found
}

func find(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return find(t.Elem(), seen)
	case reflect.Struct:
		for field := range t.Fields() {
			if what := field.Tag.Get(tag); what != "" && what != ofType || field.IsExported() && find(field.Type, seen) {
				return true
			}
		}
	default: // nothing else carries a tag
	}
	return false
}
