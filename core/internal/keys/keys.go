// Package keys has the API keys: how they are created, looked up and revoked.
package keys

import "github.com/forgequeue/forgequeue/core/internal/store"

// Keys has the statements.
type Keys struct{ *store.Store }
