package console

import (
	"slices"
	"strconv"
	"strings"

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

func listWebhooks(v *visit) (shown, error) {
	webhooks, err := v.api.Webhooks(v.ctx(), v.page(api.MaxWebhooks))
	if err != nil {
		return shown{}, err
	}
	page := webhooksPage{Older: v.older(webhooks.NextPageToken)}
	for _, one := range webhooks.Items {
		page.Items = append(page.Items, &webhookRow{one})
	}
	return shown{template: "webhooks", title: "Webhooks", data: page}, nil
}

// probeWebhook has its URL tried although the breaker is open.
func probeWebhook(v *visit) (string, error) {
	_, err := v.api.ProbeWebhook(v.ctx(), v.r.PathValue("name"))
	return "/console/webhooks?note=webhook-probed", err
}

// testWebhook sends a test delivery.
func testWebhook(v *visit) (string, error) {
	_, err := v.api.TestWebhook(v.ctx(), v.r.PathValue("name"))
	return "/console/webhooks?note=webhook-tested", err
}
