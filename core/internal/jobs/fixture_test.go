package jobs_test

import (
	"context"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
)

type fixture struct{ *celltest.Fixture }

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{celltest.NewFixture(t)}
}

func background(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }
