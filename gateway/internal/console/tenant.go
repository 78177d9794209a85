package console

import (
	"cmp"
	"context"
	"net/url"

	"github.com/forgequeue/forgequeue/gateway/internal/console/charts"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

type workersPage struct {
	Items []api.Worker
	Older string
}

func listWorkers(v *visit) (shown, error) {
	workers, err := v.api.Workers(v.ctx(), v.page(100))
	if err != nil {
		return shown{}, err
	}
	return shown{template: "workers", title: "Workers", data: workersPage{workers.Items, v.older(workers.NextPageToken)}}, nil
}

// gauge is a limit with its use.
type gauge struct {
	Name        string
	Used, Limit int64
	// Percent is 0 to 100.
	Percent int64
	// Near says that little is left; Full what happens when nothing is.
	Near bool
	Full string
	Rate float64
	// ResetMS is until a bucket is full again.
	ResetMS int64
}

// nearPercent is from where on a limit is shown as near its end.
const nearPercent = 85

func newGauge(name string, used, limit int64) gauge {
	g := gauge{Name: name, Used: used, Limit: limit}
	if limit > 0 {
		g.Percent = min(max(used*100/limit, 0), 100)
	} else if used >= limit {
		g.Percent = 100
	}
	g.Near = g.Percent >= nearPercent
	return g
}

type limitsPage struct {
	Caps, Rates []gauge
	// History is nil for a key that is bound to a user.
	History *limitHistory
}

func gauges(limits *api.LimitsResponse) limitsPage {
	var page limitsPage
	for _, one := range limits.Caps {
		g := newGauge(capName(one), one.Used, one.Limit)
		g.Full = map[string]string{"active": "Submits are refused when it is full", "running": "Jobs wait while it is full"}[one.Kind]
		page.Caps = append(page.Caps, g)
	}
	for _, one := range limits.Policies {
		g := newGauge(cmp.Or(charts.LimitLabels[one.Name], one.Name), one.Burst-one.Remaining, one.Burst)
		g.Rate, g.ResetMS = one.RatePerSecond, one.ResetMS
		page.Rates = append(page.Rates, g)
	}
	return page
}

func capName(c api.CapUse) string {
	whose := map[string]string{"tenant": "The tenant's", "user": "The user's"}[c.Scope]
	what := map[string]string{"active": "active jobs", "running": "running jobs"}[c.Kind]
	return whose + " " + what
}

func showLimits(v *visit) (shown, error) {
	limits, err := v.api.Limits(v.ctx())
	if err != nil {
		return shown{}, err
	}
	page := gauges(&limits)
	if v.who.User == nil && !v.live() {
		page.History = v.limitHistory(limits.Caps)
	}
	return shown{template: "limits", title: "Limits", data: page}, nil
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

func (v *visit) audit(list auditList) (shown, error) {
	given := v.r.URL.Query()
	page := auditPage{Actions: api.AuditActions(), Action: given.Get("action"), Object: given.Get("object"), Tenants: v.session.Operator}
	entries, err := list(v.ctx(), api.AuditFilter{Action: page.Action, Object: page.Object}, v.page(50))
	if err != nil {
		return shown{}, err
	}
	page.Older = v.older(entries.NextPageToken)
	for _, one := range entries.Items {
		page.Items = append(page.Items, newAuditRow(one, page.Tenants))
	}
	return shown{template: "audit", title: "Audit", data: page}, nil
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
	case api.AuditSchedulePut, api.AuditSchedulePause, api.AuditScheduleResume, api.AuditScheduleTrigger:
		row.Path = "/console/schedules/" + object
	case api.AuditWebhookPut, api.AuditWebhookProbe:
		row.Path = "/console/webhooks"
	case api.AuditTypePut:
		row.Path = "/console/types/" + object
	case api.AuditWorkflowCancel:
		row.Path = "/console/workflows/" + object
	}
	return row
}

func listAudit(v *visit) (shown, error)    { return v.audit(v.api.Audit) }
func listAllAudit(v *visit) (shown, error) { return v.audit(v.api.AdminAudit) }
