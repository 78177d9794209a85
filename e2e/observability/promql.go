package observability

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
)

// Asked is what an expression in PromQL asks for.
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

// Reader reads expressions by Prometheus' own parser, in a program of a module of its own (e2e/parsers/promql): as a
// library it would raise the services' dependencies.
type Reader struct {
	// Program is its path.
	Program string
}

// Read takes an expression apart.
func (r Reader) Read(ctx context.Context, expr string) (Asked, error) {
	question, err := json.Marshal([]string{expr})
	if err != nil {
		return Asked{}, err
	}
	command := exec.CommandContext(ctx, r.Program)
	command.Stdin, command.Stderr = bytes.NewReader(question), os.Stderr
	text, err := command.Output()
	if err != nil {
		return Asked{}, fmt.Errorf("%s: %w", r.Program, err)
	}
	var answers []struct {
		Asked

		Error string
	}
	if err := json.Unmarshal(text, &answers); err != nil || len(answers) != 1 {
		return Asked{}, fmt.Errorf("%s wrote %q: %w", r.Program, text, err)
	}
	if answers[0].Error != "" {
		return Asked{}, errors.New(expr + ": " + answers[0].Error)
	}
	return answers[0].Asked, nil
}
