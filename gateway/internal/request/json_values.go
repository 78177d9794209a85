package request

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// rawOrAbsent keeps a payload or a result as it was sent, and null as absent.
func rawOrAbsent(from *jsontext.Decoder, to *stdjson.RawMessage) error {
	value, err := from.ReadValue()
	if err != nil {
		return err
	}
	*to = nil
	if value.Kind() != 'n' {
		*to = bytes.Clone(value) // the decoder's buffer is ours only until it reads on
	}
	return nil
}

// mostEntries is one more than any list of a request may have, mostNested the same for
// nested lists, mostRefs for what a job of a workflow comes after. Further entries are read
// and discarded: the request will be refused, and two bytes of text must not become the 300
// bytes of a job's fields before that.
const (
	mostEntries = max(api.MaxBatchJobs, api.MaxOutcomes, api.MaxLeases) + 1
	mostNested  = api.MaxQueuesPerCall + 1
	mostRefs    = api.MaxWorkflowAfter + 1
)

// bounded reads a list, no more than its first entries.
func bounded[T any](from *jsontext.Decoder, to *[]T) error {
	most := mostEntries
	if from.StackDepth() > 1 {
		most = mostNested
	}
	return readList(from, to, most, func(*T) {})
}

// boundedRefs is bounded for what a job of a workflow comes after.
func boundedRefs(from *jsontext.Decoder, to *[]api.WorkflowDependency) error {
	return readList(from, to, mostRefs, func(*api.WorkflowDependency) {})
}

// boundedGraph is bounded for the jobs of a workflow. Once they come after more than a request may
// have in total, the refs of further jobs are discarded too: 3 MiB of text could be a million.
func boundedGraph(from *jsontext.Decoder, to *[]api.WorkflowJobRequest) error {
	edges := 0
	return readList(from, to, mostEntries, func(job *api.WorkflowJobRequest) {
		if edges > api.MaxEdges {
			job.After = nil
		}
		edges += len(job.After)
	})
}

// readList reads at most so many entries of a list; each may be changed before it is kept.
func readList[T any](from *jsontext.Decoder, to *[]T, most int, change func(*T)) error {
	if from.PeekKind() != jsontext.KindBeginArray {
		return errors.ErrUnsupported // null, or an error that the package words
	}
	if _, err := from.ReadToken(); err != nil {
		return err
	}
	entries := []T{}
	for from.PeekKind() != jsontext.KindEndArray {
		if len(entries) == most {
			if err := from.SkipValue(); err != nil {
				return err
			}
			continue
		}
		var entry T
		if err := json.UnmarshalDecode(from, &entry); err != nil {
			return err
		}
		change(&entry)
		entries = append(entries, entry)
	}
	*to = entries
	_, err := from.ReadToken()
	return err
}

// withoutNulls drops the members of a metadata object that are null. It keeps no
// more than one too many.
func withoutNulls(from *jsontext.Decoder, to *map[string]string) error {
	if from.PeekKind() != jsontext.KindBeginObject {
		return errors.ErrUnsupported
	}
	if _, err := from.ReadToken(); err != nil {
		return err
	}
	*to = map[string]string{} // not nil, also if it is empty: a patch then removes the old ones
	for from.PeekKind() != jsontext.KindEndObject {
		if len(*to) > api.MaxMetadata {
			if err := from.SkipValue(); err != nil {
				return err
			}
			continue
		}
		var name string
		var value *string
		if err := json.UnmarshalDecode(from, &name); err != nil {
			return err
		}
		if err := json.UnmarshalDecode(from, &value); err != nil {
			return err
		}
		if value == nil {
			continue
		}
		(*to)[name] = *value
	}
	_, err := from.ReadToken()
	return err
}

// refuseNUL refuses a request with a NUL in a field: PostgreSQL stores none in text.
// Payloads and results may have them, escaped in JSON; they are removed from error
// texts; the jobs and outcomes of a batch are checked one by one.
func refuseNUL(text []byte, into any) error {
	if !bytes.Contains(text, []byte(`\u0000`)) {
		return nil // a raw one is no JSON
	}
	field := fieldWithNUL(reflect.ValueOf(into), "")
	if field == "" {
		return nil
	}
	return problem.Invalid(problem.FieldError{Field: Clip(field), Message: "must not contain NUL characters"})
}

// fieldWithNUL names the first field that holds one, "" if none does.
func fieldWithNUL(value reflect.Value, name string) string {
	switch value.Interface().(type) {
	case stdjson.RawMessage, api.JobError, api.SubmitRequest, api.OutcomeRequest, api.Time:
		return ""
	}
	switch value.Kind() {
	case reflect.String:
		if strings.Contains(value.String(), "\x00") {
			return name
		}
	case reflect.Pointer:
		if !value.IsNil() {
			return fieldWithNUL(value.Elem(), name)
		}
	case reflect.Struct:
		for i := range value.NumField() {
			of := value.Type().Field(i)
			inner := name
			if tag, _, _ := strings.Cut(of.Tag.Get("json"), ","); tag != "" {
				inner = strings.TrimPrefix(name+"."+tag, ".")
			}
			if field := fieldWithNUL(value.Field(i), inner); field != "" {
				return field
			}
		}
	case reflect.Slice:
		for i := range value.Len() {
			if field := fieldWithNUL(value.Index(i), fmt.Sprintf("%s[%d]", name, i)); field != "" {
				return field
			}
		}
	case reflect.Map:
		for _, key := range value.MapKeys() {
			if strings.Contains(key.String(), "\x00") {
				return name
			}
			if field := fieldWithNUL(value.MapIndex(key), name+"."+key.String()); field != "" {
				return field
			}
		}
	default: // holds no text
	}
	return ""
}

// dependency reads a job's id, or an object with it and a policy. Its own method would not name an
// unknown member.
func dependency(from *jsontext.Decoder, to *api.Dependency) error {
	if from.PeekKind() == jsontext.KindString {
		*to = api.Dependency{}
		return json.UnmarshalDecode(from, &to.JobID)
	}
	type plain api.Dependency // without the method
	var read plain
	err := json.UnmarshalDecode(from, &read)
	*to = api.Dependency(read)
	return err
}

// workflowDependency is dependency with a ref.
func workflowDependency(from *jsontext.Decoder, to *api.WorkflowDependency) error {
	if from.PeekKind() == jsontext.KindString {
		*to = api.WorkflowDependency{}
		return json.UnmarshalDecode(from, &to.Ref)
	}
	type plain api.WorkflowDependency // without the method
	var read plain
	err := json.UnmarshalDecode(from, &read)
	*to = api.WorkflowDependency(read)
	return err
}
