package console

import (
	"encoding/json"
	"net/http"
	"strings"
)

// webhook is one of a tenant's webhooks, as far as the page shows it.
type webhook struct {
	Name   string   `json:"name"`
	URL    string   `json:"url"`
	Events []string `json:"events"`
	Filter struct {
		Queue string `json:"queue"`
		Type  string `json:"type"`
		Tag   string `json:"tag"`
	} `json:"filter"`
	Paused     bool `json:"paused"`
	Deliveries struct {
		Waiting int64 `json:"waiting"`
		Dead    int64 `json:"dead"`
		// LastStatus is of the last answer; null before the first.
		LastStatus json.RawMessage `json:"last_status"`
	} `json:"deliveries"`
}

// Last is the status of the last answer, as text.
func (w *webhook) Last() string {
	text := strings.Trim(string(w.Deliveries.LastStatus), `"`)
	if text == "null" {
		return ""
	}
	return text
}

// Only says in words which jobs it is about.
func (w *webhook) Only() string {
	var only []string
	for _, one := range []struct{ name, value string }{{"queue", w.Filter.Queue}, {"type", w.Filter.Type}, {"tag", w.Filter.Tag}} {
		if one.value != "" {
			only = append(only, one.name+" "+one.value)
		}
	}
	return strings.Join(only, ", ")
}

type webhooksPage struct {
	Items []*webhook
	Older string
}

func listWebhooks(v *visit) (shown, error) {
	webhooks, err := list[*webhook](v.client, "/v1/webhooks", v.pageQuery(100))
	if err != nil {
		return shown{}, err
	}
	return shown{template: "webhooks", title: "Webhooks", data: webhooksPage{webhooks.Items, v.older(webhooks.NextPageToken)}}, nil
}

// testWebhook sends a test delivery.
func testWebhook(v *visit) (string, error) {
	return "/console/webhooks?note=webhook-tested", v.call(http.MethodPost, resource("webhooks", v.r.PathValue("name"), "test"), nil, nil, nil)
}

// offers says whether the API has a route. It is asked with a method that no route has: no key, no limit and no handler
// is part of the answer.
func offers(served http.Handler, path string) bool {
	r, err := http.NewRequest(http.MethodOptions, path, http.NoBody) //nolint:noctx // it waits for nothing
	if err != nil {
		return false
	}
	got := answer{header: http.Header{}}
	served.ServeHTTP(&got, r)
	return got.status != http.StatusNotFound
}

// optional are the routes that a page does without if the API does not have them.
type optional struct{ webhooks, stats bool }

func optionalOf(served http.Handler) optional {
	return optional{webhooks: offers(served, "/v1/webhooks"), stats: offers(served, "/v1/stats")}
}
