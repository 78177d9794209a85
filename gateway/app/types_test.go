package app_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// A type that was set elsewhere holds in every gateway when the hint arrives, though the key is cached, and says
// that its tenant has no types.
func TestChangedTypesHint(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	core.On(hop.SubmitJobs.Path, func(item coretest.Item) coretest.Result {
		var request hop.SubmitJobsRequest
		_ = json.Unmarshal(item.Request, &request)
		return coretest.Value(202, map[string]any{"id": request.IDs[0], "state": "queued"})
	})
	core.On(hop.GetTypeSet.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, hop.TypeSet{Version: 1, Types: []hop.CheckedType{{Type: "mail", Version: 1, Revision: 1, ChecksPayload: true}}})
	})
	core.On(hop.GetType.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, hop.TypeVersion{Revision: 1, JobType: api.JobType{Type: "mail", Version: 1, PayloadSchema: json.RawMessage(`{"type":"string"}`)}})
	})
	url := storetest.Redis(t)
	gateways := []*gateway{start(t, core.URL, url, hang), start(t, core.URL, url, hang)}
	var known hop.KeyRecord
	key := addKey(core, func(k *hop.KeyRecord) { known = *k })
	submit := func(g *gateway) int {
		status, _ := fetch(t, "POST", g.url+"/v1/jobs", key.Text(), `{"type":"mail","payload":7}`)
		return status
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	publisher := redis.NewClient(options)
	defer publisher.Close()
	for _, g := range gateways {
		if got := submit(g); got != 202 {
			t.Fatalf("before the type is set: %d", got)
		}
	}
	hint, err := json.Marshal(hop.TypesChanged{Tenant: known.Tenant, Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for _, g := range gateways {
		for submit(g) != 422 {
			if time.Since(began) > hang {
				t.Fatal("the type is not known")
			}
			// Again, since a subscription may have come later than the hint.
			if err := publisher.Publish(t.Context(), hop.ChannelTypesChanged, hint).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
