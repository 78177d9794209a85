// Command promql says what expressions in PromQL ask for, by Prometheus' own parser: it reads a JSON list of
// expressions and writes a JSON list of answers, in the same order. The tests of package observability run it.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// answer is about one expression: e2e/observability.Asked, or Error.
type answer struct {
	Selectors  []selector
	Labels     []string
	Kept       []string
	Aggregated bool
	Error      string
}

type selector struct {
	Metric   string
	Matchers []matcher
	// Within are the functions and aggregations around it, outermost first.
	Within []string
}

type matcher struct{ Label, Operator, Value string }

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "promql:", err)
		os.Exit(1)
	}
}

func run() error {
	var expressions []string
	if err := json.NewDecoder(os.Stdin).Decode(&expressions); err != nil {
		return err
	}
	answers := make([]answer, len(expressions))
	for i, text := range expressions {
		answers[i] = read(text)
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

func read(text string) (a answer) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		a.Error = err.Error()
		return a
	}
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		switch node := node.(type) {
		case *parser.AggregateExpr:
			if !a.Aggregated && !node.Without {
				a.Kept = node.Grouping
			}
			a.Aggregated = true
			a.Labels = append(a.Labels, node.Grouping...)
		case *parser.BinaryExpr:
			if m := node.VectorMatching; m != nil {
				a.Labels = append(append(a.Labels, m.MatchingLabels...), m.Include...)
			}
		case *parser.VectorSelector:
			a.Selectors = append(a.Selectors, selectorOf(node, path))
		}
		return nil
	})
	return a
}

func selectorOf(node *parser.VectorSelector, path []parser.Node) selector {
	s := selector{Metric: node.Name}
	for _, m := range node.LabelMatchers {
		if m.Name != labels.MetricName {
			s.Matchers = append(s.Matchers, matcher{m.Name, m.Type.String(), m.Value})
		}
	}
	for _, around := range path {
		switch around := around.(type) {
		case *parser.AggregateExpr:
			s.Within = append(s.Within, around.Op.String())
		case *parser.Call:
			s.Within = append(s.Within, around.Func.Name)
		}
	}
	return s
}
