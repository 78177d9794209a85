package jobtype

import (
	"encoding/json"
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A step is about a fifth of a microsecond. The validator visits a pair of schema and value; it calls the schema's
// format first, if the value has the type, and is not refused by const and enum, which it then goes no deeper for.
// So each schema gets a format that counts: for this visit, and ahead for those of it that end early. Regular
// expressions count for themselves.
const (
	// maxSteps bounds a check: a second or two.
	maxSteps = 2_000_000
	// explainSteps bounds the search for the places where a value does not fit, each of which takes memory.
	explainSteps = 200_000
	// maxPattern and maxProgram bound a regular expression, in bytes and in instructions.
	maxPattern = 1024
	maxProgram = 2000
	// maxPrograms bounds all of a schema, each counted twice: it is compiled by the check of the schema too.
	maxPrograms = 40_000
)

// tooManySteps ends a check from within the validator.
type tooManySteps struct{}

// steps counts those of the check that a schema is in.
type steps struct {
	left int
	// program is how many instructions the regular expressions have.
	program int
}

func (s *steps) spend(n int) {
	if s.left -= n; s.left < 0 {
		panic(tooManySteps{})
	}
}

// counting is a schema's format: it counts a visit, and then does what the schema's own would.
type counting struct {
	steps *steps
	// own is what each visit costs, each what every member of the value adds.
	own, each int
	unique    bool
	format    func(any) error
}

func (c *counting) visit(value any) error {
	c.steps.spend(c.own)
	switch v := value.(type) {
	case map[string]any:
		c.steps.spend(len(v) * c.each)
	case []any:
		c.steps.spend(len(v) * c.each)
		if c.unique {
			c.steps.spend(c.distinct(v))
		}
	case string:
		c.steps.spend(len(v) / 64)
	}
	if c.format == nil {
		return nil
	}
	return c.format(value)
}

// distinct is the cost of uniqueItems. A short list is compared pairwise, a long one by hashes, which can be
// made equal for lists and objects that are not.
func (c *counting) distinct(list []any) int {
	size := c.size(list)
	if len(list) <= 20 {
		return len(list) * size
	}
	nested := 0
	for _, member := range list {
		switch member.(type) {
		case map[string]any, []any:
			nested++
		}
	}
	return 3*size + nested*nested/50
}

// size counts the values within a value.
func (c *counting) size(value any) int {
	n := 1
	switch v := value.(type) {
	case map[string]any:
		for _, member := range v {
			n += c.size(member)
		}
	case []any:
		for _, member := range v {
			n += c.size(member)
		}
	case string:
		n += len(v) / 256
	case float64, json.Number:
		n = 3 // it is parsed and printed
	}
	return n
}

// compared is the cost of comparing a value with others, such as those of an enum.
func compared(values []any) int {
	texts, numbers := 0, 0
	var count func(any)
	count = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			for _, member := range v {
				count(member)
			}
		case []any:
			for _, member := range v {
				count(member)
			}
		case float64, json.Number:
			numbers++
			return
		}
		texts++
	}
	for _, value := range values {
		count(value)
	}
	return 3*numbers + texts/10
}

// pattern is a regular expression that counts.
type pattern struct {
	*regexp.Regexp
	steps   *steps
	program int
}

func (p *pattern) MatchString(s string) bool {
	p.steps.spend(1 + len(s)*p.program/20)
	return p.Regexp.MatchString(s)
}

// engine compiles regular expressions (RE2: their time is linear in the text) within bounds.
func engine(counted *steps) jsonschema.RegexpEngine {
	return func(text string) (jsonschema.Regexp, error) {
		if len(text) > maxPattern {
			return nil, fmt.Errorf("a regular expression may have at most %d bytes", maxPattern)
		}
		parsed, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			return nil, err
		}
		program, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			return nil, err
		}
		if len(program.Inst) > maxProgram {
			return nil, fmt.Errorf("the regular expression is too complex: it has %d instructions, %d are allowed", len(program.Inst), maxProgram)
		}
		if counted.program += len(program.Inst); counted.program > maxPrograms {
			return nil, fmt.Errorf("the regular expressions are too complex together: they may have %d instructions", maxPrograms/2)
		}
		compiled, err := regexp.Compile(text)
		if err != nil {
			return nil, err
		}
		return &pattern{compiled, counted, len(program.Inst)}, nil
	}
}
