package view

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// mostNodes bounds a tree: a payload may have 256 KiB.
const mostNodes = 2000

// openDepth is to which depth a tree is open at first.
const openDepth = 2

// Node is one value of a JSON document.
type Node struct {
	// Name is the member's name, or the element's place; empty for the document itself.
	Name string
	// Kind is object, array, string, number, bool or null.
	Kind string
	// Text is a scalar's.
	Text string
	// Children are an object's members or an array's elements.
	Children []*Node
	// Open says whether to show the children at first.
	Open bool
}

// Summary says what a closed node holds.
func (n *Node) Summary() string {
	unit := map[string][2]string{"object": {"member", "members"}, "array": {"item", "items"}}[n.Kind]
	if len(n.Children) == 1 {
		return "1 " + unit[0]
	}
	return strconv.Itoa(len(n.Children)) + " " + unit[1]
}

// Branch says whether there are children to fold.
func (n *Node) Branch() bool { return len(n.Children) > 0 }

// Tree is JSON as nodes, in its own order. A document that is too large, or is no JSON, has no tree: whole is false, and
// its text must do.
func Tree(text json.RawMessage) (root *Node, whole bool) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	left := mostNodes
	root, whole = readNode(decoder, "", 0, &left)
	return root, whole
}

func readNode(from *json.Decoder, name string, depth int, left *int) (*Node, bool) {
	if *left--; *left < 0 {
		return nil, false
	}
	token, err := from.Token()
	if err != nil {
		return nil, false
	}
	n := &Node{Name: name}
	switch value := token.(type) {
	case json.Delim:
		n.Kind = map[json.Delim]string{'{': "object", '[': "array"}[value]
		n.Open = depth < openDepth
		return n, readChildren(from, n, depth, left)
	case string:
		n.Kind, n.Text = "string", value
	case json.Number:
		n.Kind, n.Text = "number", value.String()
	case bool:
		n.Kind, n.Text = "bool", strconv.FormatBool(value)
	default:
		n.Kind, n.Text = "null", "null"
	}
	return n, true
}

func readChildren(from *json.Decoder, n *Node, depth int, left *int) bool {
	for i := 0; from.More(); i++ {
		name := strconv.Itoa(i)
		if n.Kind == "object" {
			token, err := from.Token()
			if err != nil {
				return false
			}
			name, _ = token.(string)
		}
		child, ok := readNode(from, name, depth+1, left)
		if !ok {
			return false
		}
		n.Children = append(n.Children, child)
	}
	_, err := from.Token() // the closing one
	return err == nil
}

// Indented is JSON on lines; what is no JSON stays as it is.
func Indented(text json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, text, "", "  ") != nil {
		return string(text)
	}
	return b.String()
}
