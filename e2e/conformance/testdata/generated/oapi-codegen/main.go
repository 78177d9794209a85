// A user's program with the client that oapi-codegen makes: it submits a job and prints its id, its state as a read shows
// it, and the code of a problem.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/google/uuid"

	"program/api"
)

func main() {
	ctx := context.Background()
	c, err := api.NewClientWithResponses(os.Getenv("FORGEQUEUE_URL"), api.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+os.Getenv("FORGEQUEUE_API_KEY"))
		return nil
	}))
	if err != nil {
		log.Fatal(err)
	}
	submitted, err := c.SubmitJobWithResponse(ctx, nil, api.SubmitRequest{Type: "hash.sha256", Payload: map[string]any{"text": "hello"}})
	if err != nil || submitted.JSON202 == nil {
		log.Fatal(err, string(submitted.Body))
	}
	job, err := c.GetJobWithResponse(ctx, uuid.MustParse(submitted.JSON202.Id), nil)
	if err != nil || job.JSON200 == nil {
		log.Fatal(err, string(job.Body))
	}
	refused, err := c.SubmitJobWithResponse(ctx, nil, api.SubmitRequest{Type: "not a type"})
	if err != nil || refused.ApplicationproblemJSON400 == nil {
		log.Fatal(err, string(refused.Body))
	}
	fmt.Println(job.JSON200.Id, job.JSON200.State, refused.ApplicationproblemJSON400.Code)
}
