package api_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// notShown are fields that a key without the scope payload sends, or that only workers get, or that hold nothing of a job.
var notShown = []string{
	"SubmitRequest.Payload", "JobPatch.Payload", "Lease.Checkpoint", "SignalRequest.Data", "OutcomeSignal.Data", "LinkedSignalRequest.Data", "OutputChunk.Text",
	"CompleteRequest.Result", "OutcomeRequest.Result", "OutcomeRequest.Checkpoint", "WaitRequest.Checkpoint",
	"ClaimedJob.Payload", "ClaimedJob.Checkpoint", "ClaimedSignal.Data", "PushedJob.Payload",
	"JobTypeRequest.PayloadSchema", "JobTypeRequest.ResultSchema", "JobTypeRequest.Examples", "JobType.PayloadSchema", "JobType.ResultSchema",
	"AuditEntry.Detail", "RunningStatement.Text", "JobSummary.Output",
}

// Values of jobs, and texts that workers send, are tagged: core hides them by their tags, in whatever answer they are.
func TestWhatMayBeSensitiveIsTagged(t *testing.T) {
	t.Parallel()
	set := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	tagged, left := 0, slices.Clone(notShown)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			of, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range of.Fields.List {
				for _, name := range field.Names {
					if !mayBeSensitive(field.Type, name.Name) {
						continue
					}
					place := spec.Name.Name + "." + name.Name
					what := ""
					if field.Tag != nil {
						what = reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("sensitive")
					}
					at := slices.Index(left, place)
					switch {
					case what != "":
						tagged++
					case at >= 0:
						left = slices.Delete(left, at, at+1)
					default:
						t.Errorf("%s has a value of a job, or a text of a worker: give it a tag sensitive, or list it here", place)
					}
				}
			}
			return true
		})
	}
	if tagged < 10 || len(left) > 0 {
		t.Errorf("%d fields are tagged; listed and not there: %v", tagged, left)
	}
}

func mayBeSensitive(of ast.Expr, name string) bool {
	if array, ok := of.(*ast.ArrayType); ok {
		of = array.Elt
	}
	if named, ok := of.(*ast.SelectorExpr); ok && named.Sel.Name == "RawMessage" {
		return true
	}
	return slices.Contains([]string{"Message", "Stack", "Text", "Progress", "Output"}, name) && isText(of)
}

func isText(of ast.Expr) bool {
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	named, ok := of.(*ast.Ident)
	return ok && named.Name == "string"
}
