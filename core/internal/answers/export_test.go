package answers

import (
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
