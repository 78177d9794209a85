package tenants_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
)

type fixture struct{ *celltest.Fixture }

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{celltest.NewFixture(t)}
}
