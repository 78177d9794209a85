package console

import (
	"net/http"
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
	webhooks, err := list[*webhookRow](v.client, "/v1/webhooks", v.pageQuery(api.MaxWebhooks))
	if err != nil {
		return shown{}, err
	}
	return shown{template: "webhooks", title: "Webhooks", data: webhooksPage{webhooks.Items, v.older(webhooks.NextPageToken)}}, nil
}

// probeWebhook has its URL tried although the breaker is open.
func probeWebhook(v *visit) (string, error) {
	return "/console/webhooks?note=webhook-probed", v.call(http.MethodPost, resource("webhooks", v.r.PathValue("name"), "probe"), nil, nil, nil)
}

// testWebhook sends a test delivery.
func testWebhook(v *visit) (string, error) {
	return "/console/webhooks?note=webhook-tested", v.call(http.MethodPost, resource("webhooks", v.r.PathValue("name"), "test"), nil, nil, nil)
}
