package console

import (
	"cmp"
	"context"
	"net/url"

	"github.com/forgequeue/forgequeue/gateway/internal/console/charts"
	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

type workersPage struct {
	Items []api.Worker
	Older string
}

func listWorkers(v *visit.Visit) (visit.Page, error) {
	workers, err := v.API.Workers(v.Context(), v.PageRequest(100))
	if err != nil {
		return visit.Page{}, err
	}
	return visit.Page{Template: "workers", Title: "Workers", Data: workersPage{workers.Items, v.Older(workers.NextPageToken)}}, nil
}

type limitsPage struct {
	Caps, Rates []view.Gauge
	// PayloadKiB is how large a payload may be, with every plan.
	PayloadKiB int64
	// History is nil for a key that is bound to a user.
	History *limitHistory
}

func gauges(limits *api.LimitsResponse) limitsPage {
	page := limitsPage{PayloadKiB: api.MaxPayload >> 10}
	for _, one := range limits.Caps {
		g := view.NewGauge(capName(one), one.Used, one.Limit)
		g.Full = map[string]string{"active": "Submits are refused when it is full", "running": "Jobs wait while it is full"}[one.Kind]
		g.Means = charts.LimitMeanings[one.Scope+"-"+one.Kind]
		page.Caps = append(page.Caps, g)
	}
	for _, one := range limits.Policies {
		g := view.NewGauge(cmp.Or(charts.LimitLabels[one.Name], one.Name), one.Burst-one.Remaining, one.Burst)
		g.Means, g.Rate, g.ResetMS = charts.LimitMeanings[one.Name], one.RatePerSecond, one.ResetMS
		page.Rates = append(page.Rates, g)
	}
	return page
}

func capName(c api.CapUse) string {
	whose := map[string]string{"tenant": "The tenant's", "user": "The user's"}[c.Scope]
	what := map[string]string{"active": "active jobs", "running": "running jobs"}[c.Kind]
	return whose + " " + what
}

func showLimits(v *visit.Visit) (visit.Page, error) {
	limits, err := v.API.Limits(v.Context())
	if err != nil {
		return visit.Page{}, err
	}
	page := gauges(&limits)
	if v.Who.User == nil && !v.Live() {
		page.History = historyOf(v, limits.Caps)
	}
	return visit.Page{Template: "limits", Title: "Limits", Data: page}, nil
}

// auditRow is an entry with where its object is; "" where that has no page.
type auditRow struct {
	api.AuditEntry

	Text, Path string
}

type auditPage struct {
	Items   []auditRow
	Older   string
	Actions []string
	Action  string
	Object  string
	// Tenants says that entries are of several.
	Tenants bool
}

// auditList is a list of the API.
type auditList func(context.Context, api.AuditFilter, client.PageRequest) (api.Page[api.AuditEntry], error)

func auditOf(v *visit.Visit, list auditList) (visit.Page, error) {
	given := v.Request.URL.Query()
	page := auditPage{Actions: api.AuditActions(), Action: given.Get("action"), Object: given.Get("object"), Tenants: v.Session.Operator}
	entries, err := list(v.Context(), api.AuditFilter{Action: page.Action, Object: page.Object}, v.PageRequest(50))
	if err != nil {
		return visit.Page{}, err
	}
	page.Older = v.Older(entries.NextPageToken)
	for _, one := range entries.Items {
		page.Items = append(page.Items, newAuditRow(one, page.Tenants))
	}
	return visit.Page{Template: "audit", Title: "Audit", Data: page}, nil
}

func newAuditRow(entry api.AuditEntry, operator bool) auditRow {
	row := auditRow{AuditEntry: entry, Text: string(entry.Detail)}
	if entry.Object == nil {
		return row
	}
	object := url.PathEscape(*entry.Object)
	if operator { // a tenant's own things are not the operator's to open
		if entry.Action == api.AuditTenantCreate || entry.Action == api.AuditTenantPatch {
			row.Path = "/console/admin/tenants/" + object
		}
		return row
	}
	switch entry.Action {
	case api.AuditQueuePut, api.AuditQueuePause, api.AuditQueueResume, api.AuditQueueProbe:
		row.Path = "/console/queues/" + object
	case api.AuditRedrive:
		row.Path = "/console/jobs/" + object
	case api.AuditRedriveCreate, api.AuditRedriveCancel:
		row.Path = "/console/redrives/" + object
	case api.AuditBulkCreate, api.AuditBulkCancel:
		row.Path = "/console/bulk/" + object
	case api.AuditSchedulePut, api.AuditSchedulePause, api.AuditScheduleResume, api.AuditScheduleTrigger:
		row.Path = "/console/schedules/" + object
	case api.AuditWebhookPut, api.AuditWebhookProbe:
		row.Path = "/console/webhooks"
	case api.AuditBudgetPut:
		row.Path = budgetPath(*entry.Object)
	case api.AuditTypePut:
		row.Path = "/console/types/" + object
	case api.AuditWorkflowCancel:
		row.Path = "/console/workflows/" + object
	}
	return row
}

func listAudit(v *visit.Visit) (visit.Page, error)    { return auditOf(v, v.API.Audit) }
func listAllAudit(v *visit.Visit) (visit.Page, error) { return auditOf(v, v.API.AdminAudit) }
