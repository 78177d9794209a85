package observability

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Asked is what an expression in PromQL asks for. It is read from the expression's
// words, which is enough where Prometheus itself has said that it can be parsed
// (promtool, in the tests): its parser as a library would bring sixty modules into the
// workspace and raise the services' own dependencies.
type Asked struct {
	Selectors []Selector
	// Labels are those after by, without, on, ignoring, group_left and group_right.
	Labels []string
	// Kept are the labels that the first aggregation leaves; Aggregated says that there
	// is one.
	Kept       []string
	Aggregated bool
}

// Selector is a metric's name with its matchers.
type Selector struct {
	Metric   string
	Matchers []Matcher
	// Within are the functions and aggregations around it, outermost first.
	Within []string
}

// Matcher is one condition on a label: = != =~ !~ and the value.
type Matcher struct{ Label, Operator, Value string }

// Accepts says whether a label's value meets the condition.
func (m Matcher) Accepts(value string) bool {
	switch m.Operator {
	case "=":
		return value == m.Value
	case "!=":
		return value != m.Value
	}
	matched, err := regexp.MatchString("^(?:"+m.Value+")$", value)
	return err == nil && matched == (m.Operator == "=~")
}

var (
	// a string, a duration or number, a word, an operator of a matcher, any other sign
	token       = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[0-9][0-9a-zA-Z.]*|[a-zA-Z_:][a-zA-Z0-9_:]*|=~|!~|!=|==|<=|>=|\S`)
	word        = regexp.MustCompile(`^[a-zA-Z_:]`)
	aggregating = []string{"sum", "min", "max", "avg", "count", "group", "stddev", "stdvar", "topk", "bottomk", "quantile", "count_values"}
	listing     = []string{"by", "without", "on", "ignoring", "group_left", "group_right"}
	operating   = []string{"and", "or", "unless", "bool", "offset", "atan2", "inf", "nan"}
)

// Read takes an expression apart.
func Read(expr string) (Asked, error) {
	r := reader{tokens: token.FindAllString(expr, -1)}
	for r.at < len(r.tokens) {
		if err := r.step(); err != nil {
			return Asked{}, fmt.Errorf("%s: %w", expr, err)
		}
	}
	if len(r.within) != 0 {
		return Asked{}, fmt.Errorf("%s: %d brackets are open", expr, len(r.within))
	}
	return r.asked, nil
}

type reader struct {
	tokens []string
	at     int
	// within are the open brackets, by the function or aggregation before each.
	within []string
	// pending is what the next bracket belongs to.
	pending string
	asked   Asked
}

func (r *reader) step() error {
	text := r.tokens[r.at]
	r.at++
	switch {
	case text == "(":
		r.within, r.pending = append(r.within, r.pending), ""
	case text == ")":
		if len(r.within) == 0 {
			return errors.New("a bracket too many")
		}
		r.within = r.within[:len(r.within)-1]
	case !word.MatchString(text) || slices.Contains(operating, strings.ToLower(text)):
	case slices.Contains(listing, text):
		return r.list(text)
	case slices.Contains(aggregating, text):
		r.pending = text
		r.asked.Aggregated = true
	case r.at < len(r.tokens) && r.tokens[r.at] == "(":
		r.pending = text
	default:
		return r.selector(text)
	}
	return nil
}

// list reads the labels in brackets after a word such as by.
func (r *reader) list(after string) error {
	labels, err := r.until("(", ")")
	if err != nil {
		return fmt.Errorf("%s: %w", after, err)
	}
	first := r.asked.Kept == nil && after == "by"
	for _, label := range labels {
		if label != "," {
			r.asked.Labels = append(r.asked.Labels, label)
			if first {
				r.asked.Kept = append(r.asked.Kept, label)
			}
		}
	}
	return nil
}

func (r *reader) selector(metric string) error {
	found := Selector{Metric: metric, Within: slices.DeleteFunc(slices.Clone(r.within), func(name string) bool { return name == "" })}
	if r.at < len(r.tokens) && r.tokens[r.at] == "{" {
		matchers, err := r.until("{", "}")
		if err != nil {
			return fmt.Errorf("%s: %w", metric, err)
		}
		for i, text := range matchers {
			if i+2 < len(matchers) && slices.Contains([]string{"=", "!=", "=~", "!~"}, matchers[i+1]) {
				found.Matchers = append(found.Matchers, Matcher{text, matchers[i+1], strings.Trim(matchers[i+2], `"'`)})
			}
		}
	}
	r.asked.Selectors = append(r.asked.Selectors, found)
	return nil
}

// until gives what is between two signs, and goes on behind them.
func (r *reader) until(from, to string) ([]string, error) {
	if r.at >= len(r.tokens) || r.tokens[r.at] != from {
		return nil, fmt.Errorf("no %s", from)
	}
	end := slices.Index(r.tokens[r.at:], to)
	if end < 0 {
		return nil, fmt.Errorf("no %s", to)
	}
	between := r.tokens[r.at+1 : r.at+end]
	r.at += end + 1
	return between, nil
}
