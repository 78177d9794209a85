// Package sample is the work that `forgequeue up` shows: three handlers, and a
// few jobs for them about the project's own documents.
//
//   - text.stats counts the words of a text
//   - hash.sha256 hashes a text or bytes
//   - flaky fails as often as its payload says, then succeeds
package sample

import "github.com/forgequeue/forgequeue/shared/worker"

// Job types of the sample worker.
const (
	TypeTextStats = "text.stats"
	TypeSHA256    = "hash.sha256"
	TypeFlaky     = "flaky"
)

// Register adds the three handlers to w.
func Register(w *worker.Worker) {
	worker.Handle(w, TypeTextStats, TextStats)
	worker.Handle(w, TypeSHA256, SHA256)
	worker.Handle(w, TypeFlaky, Flaky)
}
