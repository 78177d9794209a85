// Package jobtypes has tenants' types of jobs: the table job_types, and the columns of tenants that say when it
// was changed. Package jobtype of shared checks values against them.
//
// What holds:
//
//   - Each change of a tenant's types increments tenants.types_version, in its transaction.
//   - A version of a type does not change. revision names it among all of the tenant, also after the type was
//     deleted and made again.
package jobtypes

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Errors that a caller may act on.
var (
	// ErrTooManyTypes: the tenant has reached api.MaxTypes.
	ErrTooManyTypes = errors.New("jobtypes: too many types")
	// ErrTooLarge: the versions of the tenant's types that are kept would have more than api.MaxTypeBytes.
	ErrTooLarge = errors.New("jobtypes: too large")
	// ErrSensitive: the type has sensitive fields, and the caller does not see them.
	ErrSensitive = errors.New("jobtypes: the type has sensitive fields")
)

// Types has the statements.
type Types struct{ *store.Store }

const columns = `type, version, revision, description, payload_schema, result_schema, check_results, sensitive, examples, defaults, label, created_at`

type row struct {
	Type          string
	Version       int
	Revision      int64
	Description   string
	PayloadSchema []byte
	ResultSchema  []byte
	CheckResults  bool
	Sensitive     bool
	Examples      []byte
	Defaults      []byte
	Label         *string
	CreatedAt     time.Time
}

func (r *row) wire() api.JobType {
	shown := api.JobType{
		Type: r.Type, Version: r.Version, Description: r.Description, PayloadSchema: orNull(r.PayloadSchema), ResultSchema: orNull(r.ResultSchema),
		CheckResults: r.CheckResults, Examples: []json.RawMessage{}, Label: r.Label, CreatedAt: api.At(r.CreatedAt),
	}
	_ = json.Unmarshal(r.Examples, &shown.Examples) // written by PutType alone
	shown.Defaults = r.defaults()
	return shown
}

func (r *row) defaults() (d api.JobTypeDefaults) {
	_ = json.Unmarshal(r.Defaults, &d) // written by PutType alone
	return d
}

func orNull(schema []byte) json.RawMessage {
	if schema == nil {
		return json.RawMessage("null")
	}
	return schema
}
