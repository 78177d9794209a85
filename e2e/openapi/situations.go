package main

import (
	"fmt"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/forgequeue/forgequeue/shared/api"
)

// situations are several examples of one answer, by operation: where it looks quite different from case to case.
func situations() map[string]map[string]any {
	ready := api.Reason{
		Code: api.WhyInLine, Detail: "The job is ready. Jobs of its queue, type and tags before it: 1200.", Frees: "A worker claims it.",
	}
	paused := api.Reason{Code: api.WhyPaused, Detail: "The queue default is paused.", Frees: "The queue is resumed."}
	window := api.Reason{
		Code: api.WhyWindow, Detail: "The queue default is in one of its windows, in which no job starts.", Until: &api.Time{Time: time.Date(2026, 2, 1, 6, 0, 0, 0, time.UTC)},
		Frees: "The window ends.",
	}
	full := api.Reason{
		Code: api.WhyRunningCap, Detail: "The queue runs 5 jobs, and 5 is its maximum.", Frees: "One of them ends, or the maximum is raised.",
		Limit: new(int64(5)), Current: new(int64(5)), Of: new(api.OfQueue),
	}
	unserved := api.Reason{
		Code: api.WhyNoWorker, Detail: "No active worker serves the queue default.", Frees: "A worker claims from the queue.",
	}
	queued := func(ahead int64, estimate *api.Estimate, reasons ...api.Reason) api.Explanation {
		return api.Explanation{State: api.StateQueued, Because: reasons, Ahead: &api.Ahead{Count: ahead}, Estimate: estimate}
	}
	return map[string]map[string]any{
		"explainJob": {
			"in-line":   queued(1200, &api.Estimate{StartsInMS: 40034, DrainPerSecond: 30}, ready),
			"capped":    queued(340, &api.Estimate{StartsInMS: 17050, DrainPerSecond: 20}, full),
			"paused":    queued(340, nil, paused),
			"window":    queued(340, nil, window),
			"no-worker": queued(2, nil, unserved),
		},
	}
}

// addSituations puts the situations of an operation into its answer 200.
func addSituations(op *openapi3.Operation) error {
	for title, shown := range situations()[op.OperationID] {
		answer := op.Responses.Value("200")
		if answer == nil {
			return fmt.Errorf("there is no answer 200 to be an example of")
		}
		value, err := plainJSON(shown)
		if err != nil {
			return err
		}
		media := answer.Value.Content[jsonMedia]
		if media.Examples == nil {
			media.Examples = openapi3.Examples{}
		}
		media.Examples[title] = &openapi3.ExampleRef{Value: &openapi3.Example{Summary: summaryOf(title), Value: value}}
	}
	return nil
}
