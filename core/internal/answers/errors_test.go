package answers_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/answers"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// exportedErrors lists the sentinels that a package declares.
func exportedErrors(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files in %s: %v", len(files), folder, err)
	}
	var names []string
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			general, ok := declaration.(*ast.GenDecl)
			if !ok || general.Tok != token.VAR {
				continue
			}
			for _, spec := range general.Specs {
				value, ok := spec.(*ast.ValueSpec)
				if !ok {
					continue
				}
				for _, name := range value.Names {
					if strings.HasPrefix(name.Name, "Err") {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}

// The names are read from the source, so that a new sentinel cannot be forgotten:
// the table must have as many, and each of these.
func TestEverySentinelHasACode(t *testing.T) {
	t.Parallel()
	var names []string
	for _, folder := range []string{"../amend", "../audit", "../caps", "../deadletter", "../jobs", "../jobtypes", "../../../shared/server/jobtype", "../keys", "../lanes", "../queues", "../retention", "../schedule", "../store", "../submit", "../tenants", "../workers"} {
		names = append(names, exportedErrors(t, folder)...)
	}
	table := answers.Sentinels()
	if len(names) < 13 || len(table) != len(names) {
		t.Errorf("there are %d sentinels (%v), the table has %d", len(names), names, len(table))
	}
	for err, code := range table {
		if !problem.Known(code) || code == problem.Internal {
			t.Errorf("%v has the code %q", err, code)
		}
		p := answers.Problem(t.Context(), fmt.Errorf("operation: %w", err))
		if p.Code != code || p.Detail == "" || strings.Contains(p.Detail, err.Error()) {
			t.Errorf("%v is answered as %+v", err, p)
		}
		if waits := p.Status == 503 || p.Status == 429 || code == problem.IdempotencyInFlight; waits != (p.RetryAfterMS != nil) {
			t.Errorf("%s: Retry-After is %v", code, p.RetryAfterMS)
		}
	}
}

// Callers that failed together must not come back together.
func TestRetryAfterIsSpread(t *testing.T) {
	t.Parallel()
	waits := map[int64]bool{}
	for range 50 {
		waits[*answers.Problem(t.Context(), store.ErrUnavailable).RetryAfterMS] = true
	}
	if len(waits) < 10 {
		t.Errorf("only %d different waits of 50", len(waits))
	}
}

func TestWrappedErrors(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]problem.Code{
		problem.New(problem.Forbidden, "no"):                                    problem.Forbidden,
		fmt.Errorf("x: %w", problem.New(problem.QueueFull, "no")):               problem.QueueFull,
		fmt.Errorf("%w: %w", store.ErrUnavailable, store.ErrOutcomeUnknown):     problem.CoreUnavailable,
		fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, context.DeadlineExceeded): problem.OutcomeUnknown,
		fmt.Errorf("x: %w", context.DeadlineExceeded):                           problem.Overloaded,
		context.Canceled:               problem.Overloaded,
		errors.New("password=hunter2"): problem.Internal,
	} {
		if got := answers.Problem(t.Context(), err); got.Code != want || strings.Contains(got.Detail, "hunter2") {
			t.Errorf("%v is answered as %s: %s, want %s", err, got.Code, got.Detail, want)
		}
	}
}
