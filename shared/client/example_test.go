package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// exampleServer stands in for ForgeQueue: it completes every job at once, and
// has no room in the queue "full".
func exampleServer() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		var job api.SubmitRequest
		if err := json.NewDecoder(r.Body).Decode(&job); err != nil {
			problem.New(problem.InvalidJSON, err.Error()).Write(w)
			return
		}
		if job.Queue == "full" {
			problem.New(problem.QueueFull, "The queue holds 1000 jobs.").Write(w)
			return
		}
		answer(w, http.StatusAccepted, api.SubmitResponse{JobSummary: api.JobSummary{ID: "j-1", State: api.StateQueued}})
	})
	mux.HandleFunc("GET /v1/jobs/{id}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, http.StatusOK, api.Job{
			JobSummary: api.JobSummary{ID: r.PathValue("id"), State: api.StateCompleted}, Result: json.RawMessage(`{"message_id":"m-1"}`),
		})
	})
	return httptest.NewServer(mux)
}

// A job is submitted, and its result waited for.
func ExampleClient_Submit() {
	server := exampleServer() // in a program: FORGEQUEUE_URL
	defer server.Close()
	c, err := client.New(client.Options{URL: server.URL, APIKey: "fq_live_..."})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	job, err := c.Submit(ctx, api.SubmitRequest{
		Type:    "email",
		Queue:   "mail",
		Payload: json.RawMessage(`{"to":"ada@example.com"}`),
	}, client.WithIdempotencyKey("welcome-ada")) // a second run of this program sends no second mail
	if err != nil {
		fmt.Println(err)
		return
	}
	done, err := c.Wait(ctx, job.ID)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(job.ID, done.State, string(done.Result))
	// Output: j-1 completed {"message_id":"m-1"}
}

// What the server refuses is a problem with a code.
func ExampleClient_Submit_problem() {
	server := exampleServer()
	defer server.Close()
	c, err := client.New(client.Options{URL: server.URL, APIKey: "fq_live_..."})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = c.Submit(context.Background(), api.SubmitRequest{Type: "email", Queue: "full"})
	if refused, ok := errors.AsType[*problem.Problem](err); ok {
		fmt.Println(refused.Status, refused.Code)
	}
	fmt.Println(err)
	// Output:
	// 429 queue_full
	// POST /v1/jobs: queue_full: The queue holds 1000 jobs.
}
