package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/getkin/kin-openapi/openapi2"
	"github.com/getkin/kin-openapi/openapi2conv"
	"github.com/getkin/kin-openapi/openapi3"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// document completes what swag has said of a service. Beside it are the code samples, by operation.
func document(ctx context.Context, root string, s service, raw []byte) (text []byte, samples map[string][]codeSample, err error) {
	var said openapi2.T
	if err := json.Unmarshal(rename(raw), &said); err != nil {
		return nil, nil, err
	}
	said.Consumes, said.Produces = []string{jsonMedia}, []string{jsonMedia}
	doc, err := openapi2conv.ToV3(&said)
	if err != nil {
		return nil, nil, err
	}
	facts, err := readTypes(root, append(wireFolders(), s.sources...)...)
	if err != nil {
		return nil, nil, err
	}
	doc.Info.Contact = &openapi3.Contact{Name: "ForgeQueue", URL: "https://github.com/forgequeue/forgequeue/issues"}
	doc.Info.License = &openapi3.License{Name: "Apache-2.0", URL: "https://www.apache.org/licenses/LICENSE-2.0"}
	doc.Servers = openapi3.Servers{{URL: "http://" + s.listens, Description: "Where `forgequeue up` and an installation with the default addresses serve it."}}
	c := &completer{service: s, doc: doc, types: facts, codes: map[problem.Code]bool{}, samples: map[string][]codeSample{}}
	if err := c.complete(); err != nil {
		return nil, nil, err
	}
	if err := c.namesDiffer(); err != nil {
		return nil, nil, err
	}
	text, err = encode(ctx, doc)
	return text, c.samples, err
}

// completer adds to a document.
type completer struct {
	service service
	doc     *openapi3.T
	types   types
	codes   map[problem.Code]bool // of all operations
	samples map[string][]codeSample
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
	c.problemResponses()
	c.splitInputs()
	if err := c.schemas(); err != nil {
		return err
	}
	c.alternatives()
	if err := c.mergeAnswers(); err != nil {
		return err
	}
	c.drop()
	c.integers()
	c.share()
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

// namesDiffer refuses two operations with one name, and a schema with the name of an operation or of its response, in
// any case: generators make a type of each, and what they make does not compile.
func (c *completer) namesDiffer() error {
	taken := map[string]string{}
	for _, op := range c.operations() {
		id := strings.ToLower(op.OperationID)
		if taken[id] != "" {
			return fmt.Errorf("two operations have the ID %s", op.OperationID)
		}
		taken[id], taken[id+"response"] = op.OperationID, op.OperationID
	}
	for name := range c.doc.Components.Schemas {
		if id := taken[strings.ToLower(name)]; id != "" {
			return fmt.Errorf("the schema %s and the operation %s have one name: set another @ID", name, id)
		}
	}
	return nil
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
	anythingMayBeNull(loaded)
	if err := loaded.Validate(ctx, openapi3.EnableExamplesValidation(), openapi3.EnableSchemaPatternValidation()); err != nil {
		return nil, err
	}
	if text, err = orderShown(text); err != nil {
		return nil, err
	}
	return lines(text)
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

// anythingMayBeNull is for kin-openapi, which takes null for any JSON only where nullable says so.
func anythingMayBeNull(doc *openapi3.T) {
	for _, schema := range doc.Components.Schemas {
		walk(schema, func(r *openapi3.SchemaRef) {
			if r.Ref == "" && anything(r.Value) {
				r.Value.Nullable = true
			}
		})
	}
}
