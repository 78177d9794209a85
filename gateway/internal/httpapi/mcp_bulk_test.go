package httpapi_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/gateway/internal/mcp"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// A tool that changes many jobs acts only where as many match as were confirmed.
func TestBulkToolsTakeTheirNumber(t *testing.T) {
	t.Parallel()
	d := newMCP(t, mcp.Write)
	var mu sync.Mutex
	var acted []api.BulkRequest
	d.core.On(hop.CreateBulk.Path, func(item coretest.Item) coretest.Result {
		var request api.BulkRequest
		if err := json.Unmarshal(item.Request, &request); err != nil {
			return coretest.Refuse(problem.Internal, err.Error())
		}
		if request.DryRun {
			return coretest.Value(200, api.Matched{Matched: 7})
		}
		mu.Lock()
		defer mu.Unlock()
		acted = append(acted, request)
		return coretest.Value(200, api.Bulk{ID: jobID, Action: request.Action, Matched: 7})
	})
	session := d.agent(t, d.key("manage"))
	action := map[string]any{"action": "cancel", "filter": map[string]any{"queue": "mails"}}
	if text, failed := use(t, session, "count_bulk", action); failed || !strings.Contains(text, `"matched":7`) {
		t.Errorf("%v %s", failed, text)
	}
	action["matched"] = 8
	if text, failed := use(t, session, "bulk", action); !failed || !strings.Contains(text, "is 8, and 7 match now") || len(acted) != 0 {
		t.Errorf("%v %s, acted %v", failed, text, acted)
	}
	action["matched"] = 7
	if text, failed := use(t, session, "bulk", action); failed || !strings.Contains(text, jobID) || len(acted) != 1 || *acted[0].Filter.Queue != "mails" {
		t.Errorf("%v %s, acted %v", failed, text, acted)
	}
}

// Where the dry run has not counted all, its number confirms nothing.
func TestBulkToolsRefuseWhatCannotBeCounted(t *testing.T) {
	t.Parallel()
	d := newMCP(t, mcp.Write)
	for _, matched := range []int64{0, 100_000} {
		acted := make(chan struct{}, 2)
		answer := func(item coretest.Item) coretest.Result {
			var request struct {
				DryRun bool `json:"dry_run"`
			}
			if err := json.Unmarshal(item.Request, &request); err != nil || !request.DryRun {
				acted <- struct{}{}
			}
			return coretest.Value(200, api.Matched{Matched: matched, MatchedCapped: true})
		}
		d.core.On(hop.CreateBulk.Path, answer)
		d.core.On(hop.RedriveDeadLetters.Path, answer)
		session := d.agent(t, d.key("manage"))
		for tool, arguments := range map[string]map[string]any{
			"bulk":                 {"action": "cancel", "filter": map[string]any{"queue": "mails"}, "matched": matched},
			"redrive_dead_letters": {"filter": map[string]any{"queue": "mails"}, "matched": matched},
		} {
			if text, failed := use(t, session, tool, arguments); !failed || !strings.Contains(text, "more jobs match than can be counted; use a narrower filter") {
				t.Errorf("%s of %d: %v %s", tool, matched, failed, text)
			}
		}
		if len(acted) > 0 {
			t.Errorf("%d: core was asked to act %d times", matched, len(acted))
		}
	}
}
