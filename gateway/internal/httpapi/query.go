package httpapi

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// readQuery takes the named parameters, each at most once. A name that ends in a
// dot, such as "metadata.", stands for all that begin with it. A parameter that
// is misspelt would otherwise be silently without effect.
func readQuery(raw string, names []string) (url.Values, error) {
	if raw == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, problem.New(problem.InvalidRequest, "The query cannot be read; is it escaped as a URL?")
	}
	var refused []problem.FieldError
	for name, given := range values {
		takes := func(known string) bool {
			return name == known || (strings.HasSuffix(known, ".") && strings.HasPrefix(name, known))
		}
		switch {
		case !slices.ContainsFunc(names, takes):
			refused = append(refused, problem.FieldError{Field: clip(name), Message: "is no parameter of this resource"})
		case len(given) > 1:
			refused = append(refused, problem.FieldError{Field: clip(name), Message: "is given more than once"})
		case !storable(name) || !storable(given[0]):
			refused = append(refused, problem.FieldError{Field: clip(strings.ToValidUTF8(name, "")), Message: "must be UTF-8 text without a NUL"})
		}
	}
	if len(refused) > 0 {
		slices.SortFunc(refused, func(a, b problem.FieldError) int { return strings.Compare(a.Field, b.Field) })
		return nil, problem.Invalid(refused...)
	}
	return values, nil
}

// storable says whether PostgreSQL can hold a text.
func storable(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }

const (
	nameRule  = "must be 1 to 128 of A-Z a-z 0-9 . _ : - and start with a letter or digit"
	labelRule = "must be 1 to 128 printable ASCII characters"
	timeRule  = "must be an RFC 3339 time between the years 1970 and 2500, such as 2026-11-20T12:00:00Z; in a URL a + is written %2B"
	// maxPageToken bounds what is passed on; core's tokens are far shorter.
	maxPageToken = 1024
)

// parameters reads a query's values, each by its rule, and collects what is wrong
// with them. What is absent or refused reads as zero.
type parameters struct {
	values  url.Values
	refused []problem.FieldError
}

func (p *parameters) refuse(name, rule string) {
	p.refused = append(p.refused, problem.FieldError{Field: clip(name), Message: rule})
}

// err tells of every parameter that was refused, nil if none was.
func (p *parameters) err() error {
	if len(p.refused) == 0 {
		return nil
	}
	return problem.Invalid(p.refused...)
}

// text reads a parameter that valid accepts. One that is there but empty is
// judged as well: it would otherwise quietly not filter.
func (p *parameters) text(name, rule string, valid func(string) bool) string {
	if !p.values.Has(name) {
		return ""
	}
	value := p.values.Get(name)
	if !valid(value) {
		p.refuse(name, rule)
		return ""
	}
	return value
}

func (p *parameters) name(name string) string  { return p.text(name, nameRule, api.ValidName) }
func (p *parameters) label(name string) string { return p.text(name, labelRule, api.ValidLabel) }

func (p *parameters) oneOf(name string, words ...string) string {
	return p.text(name, "must be one of "+strings.Join(words, ", "), func(value string) bool { return slices.Contains(words, value) })
}

// someOf reads a list of words with commas between. The order and repeats mean
// nothing, and are gone from what it gives: a page token binds the filter.
func (p *parameters) someOf(name string, words ...string) []string {
	var given []string
	p.text(name, "must be some of "+strings.Join(words, ",")+", with commas between", func(value string) bool {
		given = strings.Split(value, ",")
		return !slices.ContainsFunc(given, func(word string) bool { return !slices.Contains(words, word) })
	})
	slices.Sort(given)
	return slices.Compact(given)
}

func (p *parameters) time(name string) *api.Time {
	var at time.Time
	text := p.text(name, timeRule, func(value string) bool {
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

// pageParams are what every list takes, with those that narrow it.
func pageParams(filters ...string) []string { return append(filters, "page_size", "page_token") }

// page reads the two. Whether a token is good, and belongs to this list, is for
// core to say: it made it.
func (p *parameters) page() api.HopPageRequest {
	page := api.HopPageRequest{PageSize: api.DefaultPageSize}
	p.text("page_size", fmt.Sprintf("must be between 1 and %d", api.MaxPageSize), func(value string) bool {
		size, err := strconv.ParseUint(value, 10, 16)
		page.PageSize = int(size)
		return err == nil && size >= 1 && size <= api.MaxPageSize
	})
	page.PageToken = p.text("page_token", "must be the next_page_token of the page before", func(value string) bool {
		return value != "" && len(value) <= maxPageToken
	})
	return page
}

// readPage is for lists that nothing narrows.
func readPage(query url.Values) (api.HopPageRequest, error) {
	p := &parameters{values: query}
	page := p.page()
	return page, p.err()
}
