package submits_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
)

type fixture struct{ *enginetest.Fixture }

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{enginetest.New(t)}
}
