package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// auth is App.AsTenant or App.AsOperator.
type auth = func(run action) func(*cobra.Command, []string) error

// List makes a command of no arguments that shows a list of the API.
func List[T any](
	as auth, use, short string,
	read func(*client.Client, context.Context, client.PageRequest) (api.Page[T], error), fill func(*Table, []T),
) *cobra.Command {
	var page Paging
	command := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs}
	page.Flags(command)
	command.RunE = as(func(ctx context.Context, s *Session, _ []string) error {
		return ShowList(ctx, s, page, func(ctx context.Context, p client.PageRequest) (api.Page[T], error) { return read(s.Client, ctx, p) }, fill)
	})
	return command
}

// ListOf is List of what belongs to the thing that the argument names.
func ListOf[T any](
	as auth, use, short string,
	read func(*client.Client, context.Context, string, client.PageRequest) (api.Page[T], error), fill func(*Table, []T),
) *cobra.Command {
	var page Paging
	command := &cobra.Command{Use: use, Short: short, Args: One()}
	page.Flags(command)
	command.RunE = as(func(ctx context.Context, s *Session, args []string) error {
		return ShowList(ctx, s, page, func(ctx context.Context, p client.PageRequest) (api.Page[T], error) {
			return read(s.Client, ctx, args[0], p)
		}, fill)
	})
	return command
}

// Call makes a command that calls the API for the thing that its argument names, and shows the answer.
func Call[T any](
	as auth, use, short string, call func(*client.Client, context.Context, string) (T, error), fill func(*Table, T),
) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: One(), RunE: as(func(ctx context.Context, s *Session, args []string) error {
		answer, err := call(s.Client, ctx, args[0])
		if err != nil {
			return err
		}
		return s.Show(answer, func(t *Table) { fill(t, answer) })
	})}
}

// Delete makes a command that deletes the thing that its argument names.
func Delete(as auth, use, short string, call func(*client.Client, context.Context, string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: One(), RunE: as(func(ctx context.Context, s *Session, args []string) error {
		if err := call(s.Client, ctx, args[0]); err != nil {
			return err
		}
		s.Note("deleted %s", args[0])
		return nil
	})}
}

// Row makes a table of one row out of a table of many.
func Row[T any](fill func(*Table, []T)) func(*Table, T) {
	return func(t *Table, one T) { fill(t, []T{one}) }
}
