package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// field is what the document needs to know of a struct's field, beyond what swag
// tells of it.
type field struct {
	goName string
	// of is the struct that has it, which may be embedded in the one that it is read from.
	of string
	// pointer, raw JSON, or amounts of budgets: null where there is none.
	nullable bool
	// raw is any JSON.
	raw bool
	// bytes travel as base64.
	bytes bool
	// omitted where it is zero.
	omitted bool
	// time is api.Time.
	time bool
}

// types has the fields of each struct by their names in JSON.
type types map[string]map[string]field

// readTypes reads all structs of some folders.
func readTypes(root string, folders ...string) (types, error) {
	structs := map[string]*ast.StructType{}
	for _, folder := range folders {
		names, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if spec, ok := n.(*ast.TypeSpec); ok {
					if s, ok := spec.Type.(*ast.StructType); ok {
						structs[spec.Name.Name] = s
					}
				}
				return true
			})
		}
	}
	all := types{}
	for name := range structs {
		all[name] = fieldsOf(name, structs)
	}
	return all, nil
}

// fieldsOf lists a struct's fields, those of embedded structs first.
func fieldsOf(of string, structs map[string]*ast.StructType) map[string]field {
	fields := map[string]field{}
	for _, f := range structs[of].Fields.List {
		if len(f.Names) == 0 {
			if embedded := typeName(f.Type); structs[embedded] != nil && embedded != of { // api.Time is a time.Time
				maps.Copy(fields, fieldsOf(embedded, structs))
			}
			continue
		}
		if f.Tag == nil {
			continue
		}
		tag, _ := strconv.Unquote(f.Tag.Value)
		name, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		kind := typeName(f.Type)
		fields[name] = field{
			goName:   f.Names[0].Name,
			of:       of,
			nullable: strings.HasPrefix(kind, "*") || kind == "RawMessage" || kind == "Amounts",
			raw:      kind == "RawMessage",
			bytes:    kind == "[]byte",
			omitted:  strings.Contains(options, "omit"),
			time:     strings.TrimPrefix(kind, "*") == "Time",
		}
	}
	return fields
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.StarExpr:
		return "*" + typeName(e.X)
	case *ast.ArrayType:
		return "[]" + typeName(e.Elt)
	}
	return ""
}
