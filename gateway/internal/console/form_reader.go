package console

import (
	"fmt"
	"math"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// formReader reads the numbers of a form; an empty one is absent. What could be read in two ways is refused with an
// example: 10,000 is ten thousand to one person and ten to another.
type formReader struct {
	values url.Values
	wrong  []problem.FieldError
}

var (
	plainNumber = regexp.MustCompile(`^-?[0-9]{1,15}(\.[0-9]+)?$`)
	plainWhole  = regexp.MustCompile(`^-?[0-9]{1,15}$`)
)

func (f *formReader) word(name string) *string {
	text := strings.TrimSpace(f.values.Get(name))
	if text == "" {
		return nil
	}
	return &text
}

// text is a field as it is, with the spaces around it.
func (f *formReader) text(name string) *string {
	if text := f.values.Get(name); text != "" {
		return &text
	}
	return nil
}

func (f *formReader) refuse(name, format string, args ...any) {
	f.wrong = append(f.wrong, problem.FieldError{Field: name, Message: fmt.Sprintf(format, args...)})
}

func (f *formReader) number(name string) *float64 {
	text := f.word(name)
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

func (f *formReader) whole(name string) *int64 {
	text := f.word(name)
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

func (f *formReader) small(name string) *int {
	n := f.whole(name)
	if n == nil {
		return nil
	}
	return new(int(*n))
}

// seconds gives milliseconds.
func (f *formReader) seconds(name string) *int64 {
	n := f.number(name)
	if n == nil {
		return nil
	}
	const perSecond = 1000
	ms := math.Round(*n * perSecond)
	if math.Abs(*n*perSecond-ms) > 1e-3 {
		f.refuse(name, "%q is not a whole number of milliseconds: give at most three decimals, such as 1.5", *f.word(name))
		return nil
	}
	return new(int64(ms))
}
