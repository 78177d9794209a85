package apply

import (
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// of is the line of a field of an object, such as types.mail.max_running or tags[2]: that of the deepest part that is there.
func (p place) of(field string) int {
	node, line := p.node, p.line
	for field != "" && node != nil {
		node, line, field = step(node, line, field)
	}
	return line
}

// lineOf is the line of a member of a node, or of the node.
func lineOf(node ast.Node, member string) int {
	_, line := find(node, member)
	return line
}

// find gives the value of a member of a mapping and the line of its key. Without the member, as with an alias, the node is nil
// and the line that of the mapping, or the one that is given.
func find(node ast.Node, name string, otherwise ...int) (value ast.Node, line int) {
	if line = 1; len(otherwise) > 0 {
		line = otherwise[0]
	} else if node != nil {
		line = node.GetToken().Position.Line
	}
	for _, pair := range pairs(node) {
		if pair.Key.GetToken().Value == name {
			return pair.Value, pair.Key.GetToken().Position.Line
		}
	}
	return nil, line
}

// step goes to the part of a node that the field begins with. Names may have dots, so the longest key is taken.
func step(node ast.Node, line int, field string) (ast.Node, int, string) {
	if list, ok := inner(node).(*ast.SequenceNode); ok {
		text, rest, _ := strings.Cut(strings.TrimPrefix(field, "["), "]")
		if i, err := strconv.Atoi(text); err == nil && i >= 0 && i < len(list.Values) {
			return list.Values[i], list.Values[i].GetToken().Position.Line, strings.TrimPrefix(rest, ".")
		}
		return nil, line, ""
	}
	var found *ast.MappingValueNode
	longest := ""
	for _, pair := range pairs(node) {
		key := pair.Key.GetToken().Value
		rest, begins := strings.CutPrefix(field, key)
		if begins && len(key) > len(longest) && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			found, longest = pair, key
		}
	}
	if found == nil {
		return nil, line, ""
	}
	return found.Value, found.Key.GetToken().Position.Line, strings.TrimPrefix(field[len(longest):], ".")
}

// pairs are those of a mapping.
func pairs(node ast.Node) []*ast.MappingValueNode {
	switch mapping := inner(node).(type) {
	case *ast.MappingNode:
		return mapping.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{mapping}
	}
	return nil
}

// inner is a node without its anchor and tag.
func inner(node ast.Node) ast.Node {
	for {
		switch outer := node.(type) {
		case *ast.AnchorNode:
			node = outer.Value
		case *ast.TagNode:
			node = outer.Value
		default:
			return node
		}
	}
}
