package apply

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/plaintext"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// maxFile bounds a file, in bytes.
const maxFile = 16 << 20

// file is what a file declares.
type file struct {
	name, label string
	// sections are those that it has, also without an object.
	sections map[string]bool
	objects  map[*kind]map[string]object
	wrong    []string
}

// object is an object of a file.
type object struct {
	settings settings
	place    place
}

// place is where an object is in a file.
type place struct {
	node ast.Node
	line int
}

// read reads a file, or standard input for -. Its error has all that is wrong with it.
func read(name string, in io.Reader, all []*kind) (*file, error) {
	f := &file{name: name, sections: map[string]bool{}, objects: map[*kind]map[string]object{}}
	if name == "-" {
		f.name = "standard input"
	} else {
		opened, err := os.Open(name)
		if err != nil {
			return nil, cli.Usage("%w", err)
		}
		defer func() { _ = opened.Close() }() // only read
		in = opened
	}
	content, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err == nil {
		content, err = plaintext.Decode(content)
	}
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("exceeds the limit of %d bytes", maxFile)
	}
	if err != nil {
		return nil, cli.Usage("%s: %w", f.name, err)
	}
	parsed, err := parser.ParseBytes(content, 0)
	if err != nil {
		return nil, f.syntax(err)
	}
	bodies, documents, err := f.decode(parsed, content)
	if err != nil {
		return nil, err
	}
	for i := range documents {
		f.setLabel(bodies[i], documents[i])
	}
	for i := range documents {
		f.document(bodies[i], documents[i], all)
	}
	if len(f.wrong) > 0 {
		return nil, cli.Usage("%s", strings.Join(f.wrong, "\n"))
	}
	if len(f.sections) == 0 && f.label == "" {
		return nil, cli.Usage("%s: has no objects: it may have %s", f.name, sections(all))
	}
	return f, nil
}

// decode reads the documents that are not empty. Of JSON, the syntax tree is only for the lines.
func (f *file) decode(parsed *ast.File, content []byte) (bodies []ast.Node, documents []any, err error) {
	isJSON := json.Valid(content)
	for _, one := range parsed.Docs {
		if one.Body == nil {
			continue
		}
		var document any
		if isJSON {
			decoder := json.NewDecoder(bytes.NewReader(content))
			decoder.UseNumber()
			err = decoder.Decode(&document)
		} else if (&exact{file: f, anchors: map[string]int{}}).check(one.Body); len(f.wrong) == 0 {
			err = yaml.NodeToValue(one.Body, &document)
		}
		if err != nil {
			return nil, nil, f.syntax(err)
		}
		bodies, documents = append(bodies, one.Body), append(documents, document)
	}
	if len(f.wrong) > 0 {
		return nil, nil, cli.Usage("%s", strings.Join(f.wrong, "\n"))
	}
	return bodies, documents, nil
}

func (f *file) syntax(err error) error {
	if known, ok := errors.AsType[yaml.Error](err); ok && known.GetToken() != nil {
		return cli.Usage("%s:%d: %s", f.name, known.GetToken().Position.Line, known.GetMessage())
	}
	return cli.Usage("%s: %w", f.name, err)
}

func (f *file) refuse(line int, format string, args ...any) {
	f.wrong = append(f.wrong, fmt.Sprintf("%s:%d: ", f.name, line)+fmt.Sprintf(format, args...))
}

// document reads one document of the file.
func (f *file) document(body ast.Node, value any, all []*kind) {
	members, ok := value.(map[string]any)
	if !ok {
		f.refuse(lineOf(body, ""), "must have members such as queues: and schedules:, is %s", sortOf(value))
		return
	}
	for _, section := range slices.Sorted(maps.Keys(members)) {
		i := slices.IndexFunc(all, func(k *kind) bool { return k.section == section })
		objects, ok := members[section].(map[string]any)
		switch {
		case section == "label":
			continue
		case i < 0:
			f.refuse(lineOf(body, section), "there is no %q in a file; there are label, %s", section, sections(all))
			continue
		case !ok && members[section] != nil:
			f.refuse(lineOf(body, section), "%s: must have the objects by name, is %s", section, sortOf(members[section]))
			continue
		}
		f.sections[section] = true
		for _, name := range slices.Sorted(maps.Keys(objects)) {
			node, line := find(body, section)
			node, line = find(node, name, line)
			f.object(all[i], name, objects[name], place{node, line})
		}
	}
}

// setLabel reads the label of a document, which is that of all objects of the file.
func (f *file) setLabel(body ast.Node, document any) {
	members, _ := document.(map[string]any)
	value, has := members["label"]
	if !has {
		return
	}
	label, ok := value.(string)
	switch line := lineOf(body, "label"); {
	case !ok || !api.ValidObjectLabel(label):
		f.refuse(line, "label: must be 1 to 64 of A-Z a-z 0-9 . _ : - and start with a letter or digit")
	case f.label != "" && f.label != label:
		f.refuse(line, "label: a file has one label, and %s stands above", f.label)
	default:
		f.label = label
	}
}

// object reads and checks one object.
func (f *file) object(k *kind, name string, value any, at place) {
	what := k.noun + " " + name
	if _, twice := f.objects[k][name]; twice {
		f.refuse(at.line, "%s: is in the file twice", what)
		return
	}
	fields, ok := value.(map[string]any)
	if !ok && value != nil {
		f.refuse(at.line, "%s: must have fields, is %s", what, sortOf(value))
		return
	}
	if k.noun != "tenant" && !api.ValidName(name) {
		f.refuse(at.line, "%s: the name %s", what, api.NameRule)
		return
	}
	before := len(f.wrong)
	unknown(fields, k.body, "", func(field, message string) { f.refuse(at.of(field), "%s: %s: %s", what, field, message) })
	if len(f.wrong) > before {
		return
	}
	fields = maps.Clone(fields)
	if fields == nil {
		fields = map[string]any{}
	}
	if _, own := fields["label"]; !own && f.label != "" {
		fields["label"] = f.label
	}
	text, err := json.Marshal(fields)
	if err != nil {
		f.refuse(at.line, "%s: %v", what, err)
		return
	}
	read, refused, err := k.decode(name, text)
	if mistyped, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		refused = []problem.FieldError{{Field: mistyped.Field, Message: "must be " + wanted(mistyped.Type) + ", is a " + mistyped.Value}}
	} else if err != nil {
		f.refuse(at.line, "%s: %v", what, err)
		return
	}
	for _, one := range refused {
		f.refuse(at.of(one.Field), "%s: %s: %s", what, one.Field, one.Message)
	}
	if f.objects[k] == nil {
		f.objects[k] = map[string]object{}
	}
	f.objects[k][name] = object{read, at}
}

func sections(all []*kind) string {
	var names []string
	for _, k := range all {
		names = append(names, k.section)
	}
	return strings.Join(names, ", ")
}

// sortOf says what sort of value one is, for people. It does not show the value, which may be a secret.
func sortOf(value any) string {
	switch value.(type) {
	case nil:
		return "empty"
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	case string:
		return "a string"
	case bool:
		return "true or false"
	}
	return "a number"
}

// wanted says what a Go type takes.
func wanted(t reflect.Type) string {
	said := map[reflect.Kind]string{
		reflect.Bool: "true or false", reflect.String: "a string (in quotes)", reflect.Slice: "a list", reflect.Struct: "a mapping",
		reflect.Map: "a mapping", reflect.Float64: "a number",
	}[t.Kind()]
	return cmp.Or(said, "a whole number")
}

var reads = reflect.TypeFor[json.Unmarshaler]()

// unknown reports the members of a value that a request has no field for.
func unknown(value any, t reflect.Type, path string, report func(field, message string)) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch inner := value.(type) {
	case map[string]any:
		if reflect.PointerTo(t).Implements(reads) || t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
			return // any JSON, or what the decoder refuses
		}
		fields := members(t)
		for _, name := range slices.Sorted(maps.Keys(inner)) {
			field := strings.TrimPrefix(path+"."+name, ".")
			switch of, known := fields[name]; {
			case t.Kind() == reflect.Map:
				unknown(inner[name], t.Elem(), field, report)
			case known:
				unknown(inner[name], of, field, report)
			default:
				report(field, "there is no such field; there are "+strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
			}
		}
	case []any:
		if t.Kind() == reflect.Slice {
			for i := range inner {
				unknown(inner[i], t.Elem(), fmt.Sprintf("%s[%d]", path, i), report)
			}
		}
	}
}

// members are the fields of a struct by their names in JSON, with those of embedded structs.
func members(t reflect.Type) map[string]reflect.Type {
	made := map[string]reflect.Type{}
	if t.Kind() != reflect.Struct {
		return made
	}
	for field := range t.Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			made[name] = field.Type
		} else if field.Anonymous {
			maps.Copy(made, members(field.Type))
		}
	}
	return made
}
