package apply

import (
	"regexp"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// maxAliased bounds the values that a file gets by its aliases: few lines of aliases of aliases may stand for any number.
const maxAliased = 100_000

// number is one as JSON has it.
var number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// exact refuses what the YAML library reads as another value than the one that people mean.
type exact struct {
	*file
	// anchors are how many values each anchor stands for, aliased how many the aliases stand for.
	anchors map[string]int
	aliased int
}

// check checks a node and says how many values it has, with those of its aliases.
func (e *exact) check(node ast.Node) (size int) {
	switch n := inner(node).(type) {
	case nil:
	case *ast.IntegerNode, *ast.FloatNode:
		if !number.MatchString(n.GetToken().Value) {
			e.refuseNode(n, "a number is written in decimal digits, as in JSON; write a string in quotes")
		}
	case *ast.StringNode:
		if quoted := n.Token.Type == token.SingleQuoteType || n.Token.Type == token.DoubleQuoteType; !quoted && number.MatchString(n.Value) {
			e.refuseNode(n, "this is a string in YAML: write it in quotes, or as a number of decimal digits, such as 1000 or 1.0e+3")
		}
	case *ast.SequenceNode:
		for _, value := range n.Values {
			size += e.check(value)
		}
	case *ast.AliasNode:
		size = e.anchors[n.Value.GetToken().Value]
		if e.aliased += size; e.aliased > maxAliased && e.aliased-size <= maxAliased {
			e.refuseNode(n, "the aliases up to here stand for more than %d values", maxAliased)
		}
	case *ast.MappingNode, *ast.MappingValueNode:
		for i, pair := range pairs(n) {
			e.key(i, pair)
			size += e.check(pair.Value)
		}
	}
	for outer := node; ; {
		switch n := outer.(type) {
		case *ast.AnchorNode:
			e.anchors[n.Name.GetToken().Value] = min(size+1, maxAliased+1)
			outer = n.Value
			continue
		case *ast.TagNode:
			e.refuseNode(n, "tags are not read: write a string in quotes")
		}
		return min(size+1, maxAliased+1)
	}
}

// key checks the key of a mapping's pair.
func (e *exact) key(i int, pair *ast.MappingValueNode) {
	switch key := pair.Key.(type) {
	case *ast.StringNode:
		if key.Token.Type != token.SingleQuoteType && key.Token.Type != token.DoubleQuoteType && number.MatchString(key.Value) {
			e.refuseNode(key, "a name that is a number is written in quotes")
		}
	case *ast.MergeKeyNode:
		if _, several := inner(pair.Value).(*ast.SequenceNode); several || i > 0 {
			e.refuseNode(key, "<< stands before the other fields, once, with one alias")
		}
	default:
		e.refuseNode(key, "a name that YAML takes for something else than a string is written in quotes")
	}
}

func (e *exact) refuseNode(node ast.Node, format string, args ...any) {
	e.refuse(node.GetToken().Position.Line, format, args...)
}
