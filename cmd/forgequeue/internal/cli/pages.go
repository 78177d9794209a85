package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// Paging is the part of a list to show. The zero value is all of it.
type Paging struct {
	limit int
	token string
}

// Flags adds --limit and --page-token.
func (p *Paging) Flags(command *cobra.Command) {
	command.Flags().IntVar(&p.limit, "limit", api.DefaultPageSize, "how many to show at most; 0 for all")
	command.Flags().StringVar(&p.token, "page-token", "", "go on where a list before ended")
}

// Collect reads pages until the limit is reached or the list ends. A page may be short, or empty, while others
// follow.
func Collect[T any](ctx context.Context, p Paging, read func(context.Context, client.PageRequest) (api.Page[T], error)) (api.Page[T], error) {
	all := api.Page[T]{Items: []T{}}
	if p.limit < 0 {
		return all, Usage("--limit %d: must not be negative", p.limit)
	}
	next := p.token
	for {
		size := api.MaxPageSize
		if p.limit > 0 {
			size = min(size, p.limit-len(all.Items))
		}
		page, err := read(ctx, client.PageRequest{Size: size, Token: next})
		if err != nil {
			return all, err
		}
		all.Items, all.NextPageToken = append(all.Items, page.Items...), page.NextPageToken
		if page.NextPageToken == nil || p.limit > 0 && len(all.Items) >= p.limit {
			return all, nil
		}
		next = *page.NextPageToken
	}
}

// ShowList reads a list and writes it, as JSON or as the table that fill makes, with a note if there is more.
func ShowList[T any](
	ctx context.Context, s *Session, p Paging, read func(context.Context, client.PageRequest) (api.Page[T], error), fill func(t *Table, all []T),
) error {
	page, err := Collect(ctx, p, read)
	if err != nil {
		return err
	}
	if err := s.Show(page, func(t *Table) { fill(t, page.Items) }); err != nil {
		return err
	}
	if !s.JSON && page.NextPageToken != nil {
		s.Note("There is more: --limit 0 shows all, --page-token %s goes on.", *page.NextPageToken)
	}
	return nil
}
