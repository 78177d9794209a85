package read

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const signalsSQL = `
SELECT job_signals.name, job_signals.data, job_signals.at
FROM jobs JOIN job_signals ON job_signals.job_id = jobs.id
WHERE jobs.id = @id AND jobs.tenant_id = @tenant_id AND (@user::text = '' OR jobs.user_id = @user)
ORDER BY job_signals.name`

type storedSignal struct {
	Name string
	Data []byte
	At   time.Time
}

// Signals gives what a job was sent, by name; none for a job that has ended, or that the caller must not see.
func (s *Reader) Signals(ctx context.Context, owner tenant.ID, user string, id uuid.UUID) ([]api.StoredSignal, error) {
	rows, err := store.Query(store.WithClass(ctx, store.ClassLists), s.Store, pgx.RowToStructByName[storedSignal], signalsSQL,
		store.Args{"id": id, "tenant_id": owner, "user": user})
	if err != nil {
		return nil, fmt.Errorf("jobs: signals: %w", store.NotApplied(err))
	}
	found := make([]api.StoredSignal, len(rows))
	for i, row := range rows {
		found[i] = api.StoredSignal{Name: row.Name, Data: row.Data, At: api.At(row.At)}
		if row.Data == nil {
			found[i].Data = json.RawMessage("null")
		}
	}
	return found, nil
}
