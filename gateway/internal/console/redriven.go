package console

import (
	"encoding/json"
	"slices"

	"github.com/forgequeue/forgequeue/gateway/internal/console/pages"
	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// redrivesPerPage is how many redrives of several jobs are looked through for one of them.
const redrivesPerPage = 50

// redrivesOf are the redrives of a job that are in the audit log, for a key that may read it. It names a job that was
// redriven by its id, but not those of a redrive by filter.
func redrivesOf(v *visit.Visit, job *api.Job) []view.Redriven {
	if job.Redrives == 0 || !v.May(api.ScopeManage) || v.Who.User != nil {
		return nil
	}
	one := func(entry *api.AuditEntry) bool { return entry.Object != nil && *entry.Object == job.ID }
	found := auditedRedrives(v, api.AuditFilter{Action: api.AuditRedrive, Object: job.ID}, one)
	if len(found) < job.Redrives {
		several := func(entry *api.AuditEntry) bool { return entry.Object == nil && slices.Contains(jobsIn(entry), job.ID) }
		found = append(found, auditedRedrives(v, api.AuditFilter{Action: api.AuditRedrive, After: &job.CreatedAt}, several)...)
	}
	return found
}

// jobsIn are the jobs that an entry of several names.
func jobsIn(entry *api.AuditEntry) []string {
	var detail struct{ IDs []string }
	if json.Unmarshal(entry.Detail, &detail) != nil {
		return nil
	}
	return detail.IDs
}

// auditedRedrives gives none where the API gives no list: the page then says less.
func auditedRedrives(v *visit.Visit, filter api.AuditFilter, of func(*api.AuditEntry) bool) []view.Redriven {
	entries, err := v.API.Audit(v.Context(), filter, client.PageRequest{Size: redrivesPerPage})
	if err != nil {
		return nil // the log line of this request has why
	}
	var found []view.Redriven
	for i := range entries.Items {
		if entry := &entries.Items[i]; of(entry) {
			found = append(found, view.Redriven{At: entry.At.Time, By: actorOf(&entry.Actor)})
		}
	}
	return found
}

// actorOf names who acted.
func actorOf(actor *api.AuditActor) string {
	if actor.KeyID == nil {
		return actor.Kind
	}
	if name := pages.Person(actor.KeyID); name != "" {
		return name
	}
	return "key " + *actor.KeyID
}
