package forms

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// Reader reads the numbers of a form; an empty one is absent. What could be read in two ways is refused with an
// example: 10,000 is ten thousand to one person and ten to another.
type Reader struct {
	Values url.Values
	Wrong  []problem.FieldError
}

var (
	plainNumber = regexp.MustCompile(`^-?[0-9]{1,15}(\.[0-9]+)?$`)
	plainWhole  = regexp.MustCompile(`^-?[0-9]{1,16}$`)
)

// Word gives a text without the spaces around it.
func (f *Reader) Word(name string) *string {
	text := strings.TrimSpace(f.Values.Get(name))
	if text == "" {
		return nil
	}
	return &text
}

// Text is a field as it is, with the spaces around it.
func (f *Reader) Text(name string) *string {
	if text := f.Values.Get(name); text != "" {
		return &text
	}
	return nil
}

// Time gives an instant.
func (f *Reader) Time(name string) *api.Time {
	text := f.Word(name)
	if text == nil {
		return nil
	}
	at, err := time.Parse(time.RFC3339Nano, *text)
	if err != nil {
		f.refuse(name, "%q is not a time: write it such as 2026-11-20T12:00:00Z, which is UTC, or 2026-11-20T14:00:00+02:00", *text)
		return nil
	}
	return new(api.At(at.UTC().Truncate(time.Microsecond)))
}

// Names gives names with commas or lines between; none is an empty list.
func (f *Reader) Names(name string) []string {
	names := []string{}
	for part := range strings.FieldsFuncSeq(f.Values.Get(name), func(c rune) bool { return c == ',' || c == '\n' || c == '\r' }) {
		if part = strings.TrimSpace(part); part != "" {
			names = append(names, part)
		}
	}
	return names
}

// JSON gives a document.
func (f *Reader) JSON(name string) json.RawMessage {
	text := f.Word(name)
	if text == nil {
		return nil
	}
	if !json.Valid([]byte(*text)) {
		f.refuse(name, "is not JSON. A text needs its quotes: \"text\"")
		return nil
	}
	return json.RawMessage(*text)
}

func (f *Reader) refuse(name, format string, args ...any) {
	f.Wrong = append(f.Wrong, problem.FieldError{Field: name, Message: fmt.Sprintf(format, args...)})
}

// Number gives a number with or without decimals.
func (f *Reader) Number(name string) *float64 {
	text := f.Word(name)
	if text == nil {
		return nil
	}
	if view.Ambiguous.MatchString(*text) {
		digits := strings.Replace(*text, ".", "", 1)
		f.refuse(name, "%q may be read in two ways: write %s0, or %s", *text, *text, digits)
		return nil
	}
	n, err := strconv.ParseFloat(*text, 64)
	if err != nil || !plainNumber.MatchString(*text) {
		f.refuse(name, "%q is not a number: write it with digits, and a point before decimals, such as 10000 or 0.5", *text)
		return nil
	}
	return &n
}

// Whole gives a whole number.
func (f *Reader) Whole(name string) *int64 {
	text := f.Word(name)
	if text == nil {
		return nil
	}
	n, err := strconv.ParseInt(*text, 10, 64)
	if err != nil || !plainWhole.MatchString(*text) {
		f.refuse(name, "%q is not a whole number: write it with digits alone, such as 10000", *text)
		return nil
	}
	return &n
}

// Small gives a whole number that fits an int.
func (f *Reader) Small(name string) *int {
	n := f.Whole(name)
	if n == nil {
		return nil
	}
	return new(int(*n))
}

// Seconds reads a number of seconds, and gives milliseconds.
func (f *Reader) Seconds(name string) *int64 {
	n := f.Number(name)
	if n == nil {
		return nil
	}
	const perSecond = 1000
	ms := math.Round(*n * perSecond)
	if math.Abs(*n*perSecond-ms) > 1e-3 {
		f.refuse(name, "%q is not a whole number of milliseconds: give at most three decimals, such as 1.5", *f.Word(name))
		return nil
	}
	return new(int64(ms))
}

// Canary reads the sample that is queued first; without a count there is none.
func (f *Reader) Canary() *api.CanaryRequest {
	count, percent := f.Small("canary_count"), f.Number("canary_percent")
	if count == nil {
		return nil
	}
	canary := &api.CanaryRequest{Count: *count}
	if percent != nil {
		canary.Success = *percent / 100
	}
	return canary
}
