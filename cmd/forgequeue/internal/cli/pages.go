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
	watch bool
}

// Flags adds --limit, --page-token and --watch.
func (p *Paging) Flags(command *cobra.Command) {
	command.Flags().IntVar(&p.limit, "limit", api.DefaultPageSize, "how many to show at most; 0 for all")
	command.Flags().StringVar(&p.token, "page-token", "", "continue where a list before ended")
	command.Flags().BoolVarP(&p.watch, "watch", "w", false, "show the list again every two seconds; with -o jsonl a line for each change")
}

// Collect reads pages until the limit is reached or the list ends. A page may be short, or empty, while others
// follow.
func Collect[T any](ctx context.Context, p Paging, read func(context.Context, client.PageRequest) (api.Page[T], error)) (api.Page[T], error) {
	all := api.Page[T]{Items: []T{}}
	next, err := p.each(func(size int, token string) (int, *string, error) {
		page, err := read(ctx, client.PageRequest{Size: size, Token: token})
		all.Items = append(all.Items, page.Items...)
		return len(page.Items), page.NextPageToken, err
	})
	all.NextPageToken = next
	return all, err
}

// each calls read for each page, and gives the token of what is left; nil if nothing is. read gives the number of the
// page's items and its next token.
func (p *Paging) each(read func(size int, token string) (int, *string, error)) (*string, error) {
	if p.limit < 0 {
		return nil, Usage("--limit %d: must not be negative", p.limit)
	}
	for token, shown := p.token, 0; ; {
		size := api.MaxPageSize
		if p.limit > 0 {
			size = min(size, p.limit-shown)
		}
		n, next, err := read(size, token)
		if shown += n; err != nil || next == nil || p.limit > 0 && shown >= p.limit {
			return next, err
		}
		token = *next
	}
}

// ShowList reads a list and writes it in the form that is wanted, or as the table that fill makes, with a note if
// there is more. Forms of a line for each item are written page by page.
func ShowList[T any](
	ctx context.Context, s *Session, p Paging, read func(context.Context, client.PageRequest) (api.Page[T], error), fill func(t *Table, all []T),
) (err error) {
	if p.watch {
		return watch(ctx, s, p, read, fill)
	}
	var next *string
	if s.Streams() {
		next, err = p.each(func(size int, token string) (int, *string, error) {
			page, err := read(ctx, client.PageRequest{Size: size, Token: token})
			if err != nil {
				return 0, nil, err
			}
			return len(page.Items), page.NextPageToken, s.writeLines(page)
		})
	} else {
		var page api.Page[T]
		if page, err = Collect(ctx, p, read); err == nil {
			next, err = page.NextPageToken, s.Show(page, func(t *Table) { fill(t, page.Items) })
		}
	}
	if err == nil && next != nil && s.form != formJSON { // which has the token
		s.Note("There is more: --limit 0 shows all, --page-token %s continues.", *next)
	}
	return err
}
