// Package audit records who has done what: an event is written in the transaction that does it.
package audit

import "github.com/forgequeue/forgequeue/core/internal/store"

// Log is the audit log.
type Log struct{ *store.Store }
