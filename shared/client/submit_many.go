package client

import (
	"context"
	"fmt"
	"strconv"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// SubmitMany stores any number of jobs, in batches of at most 1,000 jobs and 8 MiB,
// one after the other. Arguments of several types go into a []JobArgs. The answer has a
// result for each, in the order of args: a job, or the problem for which it was
// refused. A nil error does not mean that all were accepted: look at Rejected.
//
//	answer, err := client.SubmitMany(ctx, c, []Email{{To: "ada@example.com"}, {To: "grace@example.com"}})
//	for _, result := range answer.Results {
//		if result.Problem != nil {
//			log.Printf("no. %d: %v", result.Index, result.Problem)
//		}
//	}
//
// An error means that a batch as a whole was refused, or had no answer. Results then
// has the jobs of the batches before: those of args from len(answer.Results) on are not
// stored, or, of the batch without an answer, perhaps. Arguments that cannot be written
// as JSON are an error before anything is sent.
//
// With WithIdempotencyKey the first batch has that key, and the nth the key with "/n"
// added, so that a repeat of the call with the same arguments stores nothing twice.
// WithReplayed is true if all batches were replayed.
func SubmitMany[Args JobArgs](ctx context.Context, c *Client, args []Args, options ...SubmitOption) (api.BatchResponse, error) {
	s := collect(options)
	requests := make([]api.SubmitRequest, len(args))
	for i := range args {
		request, err := Request(args[i], s.job)
		if err != nil {
			return api.BatchResponse{}, fmt.Errorf("no. %d of %d: %w", i, len(args), err)
		}
		requests[i] = request
	}
	return c.submitMany(ctx, requests, s.call)
}

func (c *Client) submitMany(ctx context.Context, requests []api.SubmitRequest, options []CallOption) (api.BatchResponse, error) {
	all := api.BatchResponse{Results: []api.BatchResult{}}
	chosen, err := choose(options)
	if err != nil {
		return all, err
	}
	everyReplayed := len(requests) > 0
	if chosen.replayed != nil {
		*chosen.replayed = false
	}
	for n := 1; len(all.Results) < len(requests); {
		first := len(all.Results)
		if p := tooLarge(requests[first]); p != nil { // alone it could exceed the batch
			all.Results = append(all.Results, api.BatchResult{Index: first, Status: p.Status, Problem: p})
			all.Rejected++
			continue
		}
		batch, err := fitting(requests[first:])
		if err != nil {
			return all, err
		}
		var replayed bool
		answer, err := c.SubmitBatch(ctx, api.BatchRequest{Jobs: batch}, append(options, numbered(chosen.idempotencyKey, n), WithReplayed(&replayed))...)
		if err != nil {
			return all, fmt.Errorf("jobs %d to %d of %d: %w", first, first+len(batch)-1, len(requests), err)
		}
		if len(answer.Results) != len(batch) {
			return all, fmt.Errorf("jobs %d to %d of %d: the server answered with %d results", first, first+len(batch)-1, len(requests), len(answer.Results))
		}
		for i, result := range answer.Results {
			result.Index = first + i
			all.Results = append(all.Results, result)
		}
		all.Accepted, all.Rejected = all.Accepted+answer.Accepted, all.Rejected+answer.Rejected
		everyReplayed = everyReplayed && replayed
		n++
	}
	if chosen.replayed != nil {
		*chosen.replayed = everyReplayed
	}
	return all, nil
}

// numbered gives the nth batch its key.
func numbered(key string, n int) CallOption {
	if n > 1 {
		key += "/" + strconv.Itoa(n)
	}
	return WithIdempotencyKey(key)
}

// tooLarge is the problem of a payload beyond its limit, as the server has it.
func tooLarge(request api.SubmitRequest) *problem.Problem {
	if len(request.Payload) <= api.MaxPayload {
		return nil
	}
	return problem.New(problem.PayloadTooLarge, fmt.Sprintf("payload: may have at most %d bytes.", api.MaxPayload))
}

// batchMargin is for the rest of a batch's body.
const batchMargin = 1 << 10

// fitting gives as many of the requests, from the first on, as a batch may have: one
// at least.
func fitting(requests []api.SubmitRequest) ([]api.SubmitRequest, error) {
	size := batchMargin
	for i := range min(len(requests), api.MaxBatchJobs) {
		written, err := encode(requests[i])
		if err != nil {
			return nil, err
		}
		size += len(written) + len(",")
		if i > 0 && (size > api.MaxBatchBody || len(requests[i].Payload) > api.MaxPayload) {
			return requests[:i], nil
		}
	}
	return requests[:min(len(requests), api.MaxBatchJobs)], nil
}
