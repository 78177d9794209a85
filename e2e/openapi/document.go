package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/getkin/kin-openapi/openapi2"
	"github.com/getkin/kin-openapi/openapi2conv"
	"github.com/getkin/kin-openapi/openapi3"
)

// document completes what swag has said of a service.
func document(ctx context.Context, root string, s service, raw []byte) ([]byte, error) {
	var said openapi2.T
	if err := json.Unmarshal(rename(raw), &said); err != nil {
		return nil, err
	}
	said.Consumes, said.Produces = []string{jsonMedia}, []string{jsonMedia}
	doc, err := openapi2conv.ToV3(&said)
	if err != nil {
		return nil, err
	}
	facts, err := readTypes(root, append(wireFolders(), s.sources...)...)
	if err != nil {
		return nil, err
	}
	doc.Info.Contact = nil
	doc.Servers = nil // none is where the document came from, whatever that is
	c := &completer{service: s, doc: doc, types: facts}
	if err := c.complete(); err != nil {
		return nil, err
	}
	return encode(ctx, doc)
}

// completer adds to a document.
type completer struct {
	service service
	doc     *openapi3.T
	types   types
}

func (c *completer) complete() error {
	c.components()
	for _, path := range c.doc.Paths.Keys() {
		for method, op := range c.doc.Paths.Value(path).Operations() {
			if err := c.operation(path, method, op); err != nil {
				return fmt.Errorf("%s %s: %w", method, path, err)
			}
		}
	}
	c.splitInputs()
	if err := c.schemas(); err != nil {
		return err
	}
	c.alternatives()
	c.drop()
	return nil
}

// operations gives every operation.
func (c *completer) operations() []*openapi3.Operation {
	var all []*openapi3.Operation
	for _, path := range c.doc.Paths.Keys() {
		item := c.doc.Paths.Value(path)
		for _, method := range []string{"GET", "PUT", "POST", "DELETE", "PATCH"} {
			if op := item.GetOperation(method); op != nil {
				all = append(all, op)
			}
		}
	}
	return all
}

// encode validates the document, examples and all, and writes it.
func encode(ctx context.Context, doc *openapi3.T) ([]byte, error) {
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	loaded, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	if err := loaded.Validate(ctx, openapi3.EnableExamplesValidation(), openapi3.EnableSchemaPatternValidation()); err != nil {
		return nil, err
	}
	if text, err = orderShown(text); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// goName is a schema's name as swag makes it: api.Page-api_JobSummary.
var goName = regexp.MustCompile(`"(#/definitions/)?((?:api|hop|problem|httpapi)\.[A-Za-z0-9_.-]+)"`)

// rename gives schemas names without packages: PageOfJobSummary.
func rename(raw []byte) []byte {
	return goName.ReplaceAllFunc(raw, func(found []byte) []byte {
		parts := goName.FindSubmatch(found)
		var words []string
		for part := range strings.SplitSeq(string(parts[2]), "-") {
			part = part[strings.LastIndexAny(part, "._")+1:]
			words = append(words, strings.ToUpper(part[:1])+part[1:])
		}
		return []byte(`"` + string(parts[1]) + strings.Join(words, "Of") + `"`)
	})
}
