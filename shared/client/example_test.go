package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

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
		job := api.Job{
			JobSummary: api.JobSummary{ID: r.PathValue("id"), Type: "email", State: api.StateCompleted}, Result: json.RawMessage(`{"message_id":"m-1"}`),
		}
		if job.ID == "j-dead" {
			job.State, job.DeadReason, job.Result = api.StateDeadLetter, new(api.ReasonPermanent), nil
			job.LastError = &api.JobError{Type: "error", Message: "no such address"}
		}
		answer(w, http.StatusOK, job)
	})
	mux.HandleFunc("POST /v1/jobs/batch", func(w http.ResponseWriter, r *http.Request) {
		var batch api.BatchRequest
		if err := json.NewDecoder(r.Body).Decode(&batch); err != nil {
			problem.New(problem.InvalidJSON, err.Error()).Write(w)
			return
		}
		var all api.BatchResponse
		for i, job := range batch.Jobs {
			result := api.BatchResult{Index: i, Status: http.StatusAccepted, Job: &api.BatchJob{ID: fmt.Sprint("j-", i+1), State: api.StateQueued}}
			if job.Queue == "full" {
				p := problem.New(problem.QueueFull, "The queue holds 1000 jobs.")
				result = api.BatchResult{Index: i, Status: p.Status, Problem: p}
			}
			all.Results = append(all.Results, result)
		}
		answer(w, http.StatusOK, all)
	})
	return httptest.NewServer(mux)
}

// Email is what a job is about: it names the type of its jobs, and their options.
type Email struct {
	To string `json:"to"`
}

// JobType is the type of the jobs.
func (Email) JobType() string { return "email" }

// JobOptions are what each of the jobs has, unless a call says otherwise.
func (Email) JobOptions() client.JobOptions {
	return client.JobOptions{Queue: "mail", MaxAttempts: 5, Timeout: time.Minute, Unique: true}
}

// Receipt is what a job results in.
type Receipt struct {
	MessageID string `json:"message_id"`
}

func exampleClient(server *httptest.Server) *client.Client {
	c, err := client.New(client.Options{URL: server.URL, APIKey: "fq_live_..."}) // in a program: client.FromEnv()
	if err != nil {
		panic(err) // the options are right
	}
	return c
}

// Arguments make a job, whose result is waited for.
func ExampleSubmit() {
	server := exampleServer()
	defer server.Close()
	ctx, c := context.Background(), exampleClient(server)
	job, err := client.Submit(ctx, c, Email{To: "ada@example.com"}, client.JobOptions{Delay: time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	receipt, err := client.Wait[Receipt](ctx, c, job.ID)
	fmt.Println(job.ID, receipt.MessageID, err)
	// Output: j-1 m-1 <nil>
}

// A job that ended without a result is an error that tells how.
func ExampleWait() {
	server := exampleServer()
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := client.Wait[Receipt](ctx, exampleClient(server), "j-dead")
	if ended, ok := errors.AsType[*client.EndedError](err); ok {
		fmt.Println(ended.State, ended.Reason, ended.Job.LastError.Message)
	}
	fmt.Println(err)
	// Output:
	// dead_letter permanent no such address
	// job j-dead of type email is dead_letter (permanent): error: no such address
}

// Invoice is another type, whose queue is full.
type Invoice struct{ No int }

// JobType is the type of the jobs.
func (Invoice) JobType() string { return "invoice" }

// JobOptions are those of each job.
func (Invoice) JobOptions() client.JobOptions { return client.JobOptions{Queue: "full"} }

// Jobs of several types in one call; each has its own answer.
func ExampleSubmitMany() {
	server := exampleServer()
	defer server.Close()
	jobs := []client.JobArgs{Email{To: "ada@example.com"}, Invoice{No: 7}, Email{To: "grace@example.com"}}
	answer, err := client.SubmitMany(context.Background(), exampleClient(server), jobs)
	if err != nil {
		fmt.Println(err) // jobs[len(answer.Results):] are not stored
	}
	for _, result := range answer.Results {
		if result.Problem != nil {
			fmt.Println(result.Index, result.Problem.Code)
			continue
		}
		fmt.Println(result.Index, result.Job.ID)
	}
	// Output:
	// 0 j-1
	// 1 queue_full
	// 2 j-3
}

// The same arguments on the same day make the same key, in any process.
func ExampleUniqueKey() {
	noon := time.Date(2026, time.November, 23, 12, 0, 0, 0, time.UTC)
	key, err := client.UniqueKey(Email{To: "ada@example.com"}, 24*time.Hour, noon)
	fmt.Println(key, err)
	later, err := client.UniqueKey(Email{To: "ada@example.com"}, 24*time.Hour, noon.Add(11*time.Hour))
	fmt.Println(later == key, err)
	// Output:
	// unique:fbc7a15bb7ccab66745a5b4beee0480f157ce16edd003ff04fa99c874d643f0b <nil>
	// true <nil>
}

// Arguments in a workflow.
func ExampleRequest() {
	request, err := client.Request(Email{To: "ada@example.com"}, client.JobOptions{Priority: new(9)})
	if err != nil {
		fmt.Println(err)
		return
	}
	request.DedupeKey = nil // the jobs of a workflow have none
	workflow, err := client.Workflow().Add("first", request).Request()
	fmt.Println(workflow.Jobs[0].Type, workflow.Jobs[0].Queue, *workflow.Jobs[0].Priority, string(workflow.Jobs[0].Payload), err)
	// Output: email mail 9 {"to":"ada@example.com"} <nil>
}

// Middleware is a function around every call that submits jobs.
func ExampleOptions_middleware() {
	server := exampleServer()
	defer server.Close()
	c, err := client.New(client.Options{URL: server.URL, APIKey: "fq_live_...", Middleware: []func(client.SubmitFunc) client.SubmitFunc{
		func(next client.SubmitFunc) client.SubmitFunc {
			return func(ctx context.Context, s *client.Submission) error {
				for _, job := range s.Jobs {
					job.Metadata = map[string]string{"release": "42"} // a new map: the old one is the caller's
				}
				err := next(ctx, s)
				fmt.Println(len(s.Jobs), s.Jobs[0].Type, s.IDs, err)
				return err
			}
		},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = client.Submit(context.Background(), c, Email{To: "ada@example.com"})
	// Output: 1 email [j-1] <nil>
}

// A producer's test needs no server: a middleware that does not call next takes the jobs.
func ExampleSubmission() {
	var submitted []*api.SubmitRequest
	c, err := client.New(client.Options{URL: "http://test.invalid", APIKey: "none", Middleware: []func(client.SubmitFunc) client.SubmitFunc{
		func(client.SubmitFunc) client.SubmitFunc {
			return func(_ context.Context, s *client.Submission) error {
				submitted = append(submitted, s.Jobs...)
				return nil
			}
		},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = client.Submit(context.Background(), c, Email{To: "ada@example.com"}) // what is to be tested
	fmt.Println(submitted[0].Type, submitted[0].Queue, string(submitted[0].Payload))
	// Output: email mail {"to":"ada@example.com"}
}

// A job is submitted without a Go type for its payload, and its result waited for.
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
