// A user's program with the client that ogen makes: it submits a job and prints its id, its state as a read shows it, and
// the code of a problem.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/go-faster/jx"
	"github.com/google/uuid"

	"program/api"
)

type key string

func (k key) ApiKey(context.Context, api.OperationName) (api.ApiKey, error) {
	return api.ApiKey{Token: string(k)}, nil
}

func main() {
	ctx := context.Background()
	c, err := api.NewClient(os.Getenv("FORGEQUEUE_URL"), key(os.Getenv("FORGEQUEUE_API_KEY")))
	if err != nil {
		log.Fatal(err)
	}
	answer, err := c.SubmitJob(ctx, &api.SubmitRequest{Type: "hash.sha256", Payload: jx.Raw(`{"text": "hello"}`)}, api.SubmitJobParams{})
	if err != nil {
		log.Fatal(err)
	}
	submitted, ok := answer.(*api.SubmitResponseHeaders)
	if !ok {
		log.Fatalf("%T", answer)
	}
	read, err := c.GetJob(ctx, api.GetJobParams{ID: uuid.MustParse(submitted.Response.ID)})
	if err != nil {
		log.Fatal(err)
	}
	job, ok := read.(*api.JobHeaders)
	if !ok {
		log.Fatalf("%T", read)
	}
	_, err = c.GetJob(ctx, api.GetJobParams{ID: uuid.New()})
	var refused *api.FailureStatusCodeWithHeaders
	if !errors.As(err, &refused) {
		log.Fatal(err)
	}
	fmt.Println(job.Response.ID, job.Response.State, refused.Response.Code)
}
