package httpapi

import (
	"context"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// Sentinels gives the code of each error in the table.
func Sentinels() map[error]problem.Code {
	codes := map[error]problem.Code{}
	for _, known := range sentinels() {
		codes[known.err] = known.code
	}
	return codes
}

// AsProblem is how an error is told to a caller.
func AsProblem(ctx context.Context, err error) *problem.Problem { return asProblem(ctx, err) }
