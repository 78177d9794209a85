package client

import (
	"context"
	"iter"

	"github.com/forgequeue/forgequeue/shared/api"
)

// All walks through a whole list, page by page:
//
//	jobs := client.All(ctx, func(ctx context.Context, page client.PageRequest) (api.Page[api.JobSummary], error) {
//		return c.List(ctx, filter, page)
//	})
//	for job, err := range jobs {
//		if err != nil {
//			return err
//		}
//		fmt.Println(job.ID, job.State)
//	}
//
// A page that cannot be read ends the iteration with its error. Short and empty
// pages before the end, which are usual with filters, do not. Methods that need no
// filter can be passed as they are: client.All(ctx, c.Queues).
func All[T any](ctx context.Context, list func(context.Context, PageRequest) (api.Page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		page := PageRequest{Size: api.MaxPageSize}
		for {
			answer, err := list(ctx, page)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range answer.Items {
				if !yield(item, nil) {
					return
				}
			}
			if answer.NextPageToken == nil {
				return
			}
			page.Token = *answer.NextPageToken
		}
	}
}
