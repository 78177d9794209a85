// Package audit records administrative actions: an event is written in the transaction of its
// action.
package audit

import "github.com/forgequeue/forgequeue/core/internal/store"

// Log is the audit log.
type Log struct{ *store.Store }
