package console

import (
	"slices"
	"strconv"
	"strings"

	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
	"github.com/forgequeue/forgequeue/shared/api"
)

// webhookRow is a webhook in a list.
type webhookRow struct{ api.Webhook }

// Last is how the last call ended: a status, or why there was none; empty before the first.
func (w *webhookRow) Last() string {
	switch d := &w.Deliveries; {
	case d.LastStatus != nil:
		return strconv.Itoa(*d.LastStatus)
	case d.LastError != nil:
		return *d.LastError
	}
	return ""
}

// Only says in words which jobs it is about.
func (w *webhookRow) Only() string {
	var only []string
	for _, one := range []struct {
		name  string
		value *string
	}{{"queue", w.Filter.Queue}, {"type", w.Filter.Type}, {"tag", w.Filter.Tag}} {
		if one.value != nil {
			only = append(only, one.name+" "+*one.value)
		}
	}
	return strings.Join(only, ", ")
}

type webhooksPage struct {
	Items []*webhookRow
	Older string
}

// Broken says that the breaker of one is open.
func (p webhooksPage) Broken() bool {
	return slices.ContainsFunc(p.Items, func(w *webhookRow) bool { return w.Breaker != nil && w.Breaker.State == api.BreakerOpen })
}

func listWebhooks(v *visit.Visit) (visit.Page, error) {
	webhooks, err := v.API.Webhooks(v.Context(), v.PageRequest(api.MaxWebhooks))
	if err != nil {
		return visit.Page{}, err
	}
	page := webhooksPage{Older: v.Older(webhooks.NextPageToken)}
	for _, one := range webhooks.Items {
		page.Items = append(page.Items, &webhookRow{one})
	}
	return visit.Page{Template: "webhooks", Title: "Webhooks", Data: page}, nil
}

// probeWebhook has its URL tried although the breaker is open.
func probeWebhook(v *visit.Visit) (string, error) {
	_, err := v.API.ProbeWebhook(v.Context(), v.Request.PathValue("name"))
	return "/console/webhooks?note=webhook-probed", err
}

// testWebhook sends a test delivery.
func testWebhook(v *visit.Visit) (string, error) {
	_, err := v.API.TestWebhook(v.Context(), v.Request.PathValue("name"))
	return "/console/webhooks?note=webhook-tested", err
}
