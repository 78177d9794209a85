package submit_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
)

type fixture struct{ *celltest.Fixture }

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{celltest.NewFixture(t)}
}

func decode[T any](f *fixture, body json.RawMessage) T {
	f.Helper()
	var value T
	if err := json.Unmarshal(body, &value); err != nil {
		f.Fatal(err)
	}
	return value
}

func background(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }
