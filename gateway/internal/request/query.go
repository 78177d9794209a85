package request

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ParseQuery accepts the named parameters, each at most once. A name that ends in a
// dot, such as "metadata.", stands for all that begin with it. Others are refused:
// a misspelt parameter would be ignored silently.
func ParseQuery(raw string, names []string) (url.Values, error) {
	if raw == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, problem.New(problem.InvalidRequest, "The query string is not valid. Check its URL escaping.")
	}
	var refused []problem.FieldError
	for name, given := range values {
		takes := func(known string) bool {
			return name == known || (strings.HasSuffix(known, ".") && strings.HasPrefix(name, known))
		}
		switch {
		case !slices.ContainsFunc(names, takes):
			refused = append(refused, problem.FieldError{Field: Clip(name), Message: "is not a parameter of this resource"})
		case len(given) > 1:
			refused = append(refused, problem.FieldError{Field: Clip(name), Message: "is given more than once"})
		case !Storable(name) || !Storable(given[0]):
			refused = append(refused, problem.FieldError{Field: Clip(strings.ToValidUTF8(name, "")), Message: "must be UTF-8 text without NUL characters"})
		}
	}
	if len(refused) > 0 {
		slices.SortFunc(refused, func(a, b problem.FieldError) int { return strings.Compare(a.Field, b.Field) })
		return nil, problem.Invalid(refused...)
	}
	return values, nil
}

// What names and labels have to be.
const (
	NameRule  = api.NameRule
	LabelRule = api.LabelRule
)

const (
	timeRule = "must be an RFC 3339 time between the years 1970 and 2500, such as 2026-11-20T12:00:00Z; in a URL a + is written %2B"
	// maxPageToken bounds a token, in bytes; core's tokens are far shorter.
	maxPageToken = 1024
)

// Query reads a query's parameters, each by its rule, and collects what is wrong
// with them. What is absent or refused reads as zero.
type Query struct {
	values  url.Values
	refused []problem.FieldError
}

// NewQuery reads from values, which ParseQuery gives.
func NewQuery(values url.Values) *Query { return &Query{values: values} }

// refuse says what rule a parameter breaks.
func (q *Query) refuse(name, rule string) {
	q.refused = append(q.refused, problem.FieldError{Field: Clip(name), Message: rule})
}

// Err names every parameter that was refused, nil if none was.
func (q *Query) Err() error {
	if len(q.refused) == 0 {
		return nil
	}
	return problem.Invalid(q.refused...)
}

// Text reads a parameter that valid accepts. An empty one is checked too: it would
// otherwise silently not filter.
func (q *Query) Text(name, rule string, valid func(string) bool) string {
	if !q.values.Has(name) {
		return ""
	}
	value := q.values.Get(name)
	if !valid(value) {
		q.refuse(name, rule)
		return ""
	}
	return value
}

// Queue reads the name of a queue, one of the system included.
func (q *Query) Queue(name string) string { return q.Text(name, NameRule, api.ValidQueueToRead) }

// Name reads the name of a queue, a type or a tag.
func (q *Query) Name(name string) string { return q.Text(name, NameRule, api.ValidName) }

// Label reads a label, which allows more characters than a name, such as a user.
func (q *Query) Label(name string) string { return q.Text(name, LabelRule, api.ValidLabel) }

// OneOf reads one of some words.
func (q *Query) OneOf(name string, words ...string) string {
	return q.Text(name, "must be one of "+strings.Join(words, ", "), func(value string) bool { return slices.Contains(words, value) })
}

// SomeOf reads a comma-separated list of words. It sorts them and removes repeats,
// which mean nothing, because a page token is bound to the filter.
func (q *Query) SomeOf(name string, words ...string) []string {
	var given []string
	q.Text(name, "must be some of "+strings.Join(words, ",")+", with commas between", func(value string) bool {
		given = strings.Split(value, ",")
		return !slices.ContainsFunc(given, func(word string) bool { return !slices.Contains(words, word) })
	})
	slices.Sort(given)
	return slices.Compact(given)
}

// Time reads a time, in whole microseconds; nil where there is none.
func (q *Query) Time(name string) *api.Time {
	var at time.Time
	text := q.Text(name, timeRule, func(value string) bool {
		var err error
		at, err = time.Parse(time.RFC3339Nano, value)
		at = at.UTC().Truncate(time.Microsecond)
		return err == nil && at.Year() >= 1970 && at.Year() <= 2500
	})
	if text == "" {
		return nil
	}
	return &api.Time{Time: at}
}

// Date reads a day, such as 2026-11-24.
func (q *Query) Date(name string) string {
	return q.Text(name, "must be a date between the years 1970 and 2500, such as 2026-11-24", func(value string) bool {
		day, err := time.Parse(time.DateOnly, value)
		return err == nil && day.Year() >= 1970 && day.Year() <= 2500
	})
}

// MetadataPrefix begins every parameter that filters by metadata: metadata.K=V.
const MetadataPrefix = "metadata."

// Metadata reads them; a key or value that no job can have is refused.
func (q *Query) Metadata() map[string]string {
	var metadata map[string]string
	for _, name := range slices.Sorted(maps.Keys(q.values)) {
		key, ok := strings.CutPrefix(name, MetadataPrefix)
		if !ok {
			continue
		}
		value := q.values.Get(name)
		switch {
		case !api.ValidName(key):
			q.refuse(name, "the key "+NameRule)
		case len(value) > api.MaxMetadataValue || !utf8.ValidString(value) || strings.ContainsRune(value, 0):
			q.refuse(name, fmt.Sprintf("must be UTF-8 text of at most %d bytes, without NUL characters", api.MaxMetadataValue))
		case metadata == nil:
			metadata = map[string]string{key: value}
		default:
			metadata[key] = value
		}
	}
	if len(metadata) > api.MaxMetadata {
		q.refuse("metadata", fmt.Sprintf("must have at most %d entries", api.MaxMetadata))
	}
	return metadata
}

// Whole reads a whole number from 1 to most; 0 where there is none.
func (q *Query) Whole(name string, most int64) (n int64) { return q.between(name, 1, most) }

// WholeOrZero reads a whole number from 0 to most; 0 where there is none.
func (q *Query) WholeOrZero(name string, most int64) (n int64) { return q.between(name, 0, most) }

func (q *Query) between(name string, least, most int64) (n int64) {
	q.Text(name, fmt.Sprintf("must be between %d and %d", least, most), func(value string) bool {
		read, err := strconv.ParseUint(value, 10, 32)
		n = int64(read)
		return err == nil && n >= least && n <= most
	})
	return n
}

// Page reads page_size and page_token. Core, which made the token, checks that it is valid
// and belongs to this list.
func (q *Query) Page() hop.PageRequest {
	page := hop.PageRequest{PageSize: api.DefaultPageSize}
	if q.values.Has("page_size") {
		page.PageSize = int(q.Whole("page_size", api.MaxPageSize))
	}
	page.PageToken = q.Text("page_token", "must be the next_page_token of the page before", func(value string) bool {
		return value != "" && len(value) <= maxPageToken
	})
	return page
}

// ReadPage is for lists without filters.
func ReadPage(values url.Values) (hop.PageRequest, error) {
	q := NewQuery(values)
	page := q.Page()
	return page, q.Err()
}
