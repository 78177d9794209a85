// Package relay holds the command relay: it sends the jobs of an outbox, the table of jobs in a program's own database
// (shared/outbox), and looks after that table.
package relay

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/outbox"
	"github.com/forgequeue/forgequeue/shared/server/secret"
)

// Command is relay.
func Command(a *cli.App) *cobra.Command {
	command := newRun(a)
	command.PersistentFlags().String("database-url", "", "the database with the outbox, instead of FORGEQUEUE_RELAY_DATABASE_URL; others on this machine see it")
	command.AddCommand(newMigrate(a), newSchema(a), newStatus(a), newFailed(a), newRetry(a), newDiscard(a))
	return command
}

// onTable makes a RunE that works on the outbox alone, without a server.
func onTable(a *cli.App, run func(ctx context.Context, s *cli.Screen, t *outbox.Table, args []string) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		url, err := databaseURL(a, command)
		if err != nil {
			return err
		}
		ctx := command.Context()
		table, err := outbox.Connect(ctx, url.Reveal(), 2)
		if err != nil {
			return cli.Environment(err)
		}
		defer table.Close()
		if err := table.Ping(ctx); err != nil && !errors.Is(err, ctx.Err()) {
			return cli.Environment(err)
		}
		return run(ctx, a.Screen(command), table, args)
	}
}

const databaseVariable = "FORGEQUEUE_RELAY_DATABASE_URL"

// databaseURL is that of the flag, or of the environment.
func databaseURL(a *cli.App, command *cobra.Command) (secret.Text, error) {
	if given := command.Flag("database-url").Value.String(); given != "" {
		return secret.Text(given), nil
	}
	text, err := a.Secret(databaseVariable)
	if err == nil && text == "" {
		err = cli.Environment(fmt.Errorf("%s is not set: the database with your own tables, postgres://user:password@host:5432/database; or %[1]s_FILE, a file with it", databaseVariable))
	}
	return secret.Text(text), err
}

func newMigrate(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Create the outbox in your database, or update it; can be repeated safely",
		Args:  cobra.NoArgs,
		RunE: onTable(a, func(ctx context.Context, s *cli.Screen, t *outbox.Table, _ []string) error {
			from, err := t.Migrate(ctx)
			if err != nil {
				return cli.Environment(err)
			}
			now := max(from, outbox.Version)
			return s.Show(map[string]int{"version": now, "before": from}, func(t *cli.Table) {
				t.Pair("version", now)
				t.Pair("before", from)
			})
		}),
	}
}

func newSchema(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the SQL of the outbox, for a migration of your own",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(a.Screen(command).Out, outbox.Schema())
			return err
		},
	}
}

func newStatus(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show how many rows wait, are being sent, or have failed",
		Args:  cobra.NoArgs,
		RunE: onTable(a, func(ctx context.Context, s *cli.Screen, t *outbox.Table, _ []string) error {
			stats, err := t.Stats(ctx)
			if err != nil {
				return cli.Environment(err)
			}
			shown := struct {
				Waiting  int64 `json:"waiting"`
				Sending  int64 `json:"sending"`
				Failed   int64 `json:"failed"`
				OldestMS int64 `json:"oldest_ms"`
			}{stats.Waiting, stats.Sending, stats.Failed, stats.Oldest.Milliseconds()}
			return s.Show(shown, func(t *cli.Table) {
				t.Pair("waiting", stats.Waiting)
				t.Pair("sending", stats.Sending)
				t.Pair("failed", stats.Failed)
				t.Pair("oldest", cli.About(stats.Oldest))
			})
		}),
	}
}

// failedPage is how many failed rows are read at once.
const failedPage = 500

func newFailed(a *cli.App) *cobra.Command {
	var limit int
	command := &cobra.Command{
		Use:   "failed",
		Short: "List the rows that the server refused permanently, with the reason",
		Args:  cobra.NoArgs,
		RunE: onTable(a, func(ctx context.Context, s *cli.Screen, t *outbox.Table, _ []string) error {
			if limit < 0 {
				return cli.Usage("--limit %d: must not be negative", limit)
			}
			list := api.Page[outbox.FailedRow]{Items: []outbox.FailedRow{}}
			for after := int64(0); limit == 0 || len(list.Items) < limit; {
				size := failedPage
				if limit > 0 {
					size = min(size, limit-len(list.Items))
				}
				page, err := t.Failed(ctx, after, size)
				if err != nil {
					return cli.Environment(err)
				}
				list.Items = append(list.Items, page...)
				if len(page) < size {
					break
				}
				after = page[len(page)-1].ID
			}
			return s.Show(list, func(t *cli.Table) { failedRows(t, list.Items) })
		}),
	}
	command.Flags().IntVar(&limit, "limit", api.DefaultPageSize, "how many to show at most; 0 for all")
	return command
}

func failedRows(t *cli.Table, all []outbox.FailedRow) {
	t.Head("ID", "TYPE", "QUEUE", cli.Minor("ORDERING KEY"), "FAILED", "CODE", cli.Long("DETAIL"))
	for _, one := range all {
		t.Row(one.ID, one.Type, one.Queue, cli.OrElse(one.OrderingKey, ""), api.Time{Time: one.FailedAt}, one.Error.Code, cli.Brief(one.Error.Detail))
	}
}

func newRetry(a *cli.App) *cobra.Command {
	var all bool
	command := &cobra.Command{
		Use:     "retry ID...",
		Short:   "Send failed rows again",
		Example: "  forgequeue relay retry 17 18\n  forgequeue relay retry --all",
		RunE: onTable(a, func(ctx context.Context, s *cli.Screen, t *outbox.Table, args []string) error {
			ids, err := rowIDs(args)
			switch {
			case err != nil:
				return err
			case all == (len(ids) > 0):
				return cli.Usage("name the ids of failed rows, or --all")
			case all:
				ids, err = t.RetryAll(ctx)
				return changed(s, "will be sent again", ids, ids, err)
			}
			found, err := t.Retry(ctx, ids...)
			return changed(s, "will be sent again", ids, found, err)
		}),
	}
	command.Flags().BoolVar(&all, "all", false, "every failed row")
	return command
}

func newDiscard(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "discard ID...",
		Short: "Delete failed rows, which unblocks later rows with the same ordering key",
		RunE: onTable(a, func(ctx context.Context, s *cli.Screen, t *outbox.Table, args []string) error {
			ids, err := rowIDs(args)
			if err != nil {
				return err
			}
			if len(ids) == 0 {
				return cli.Usage("name the ids of failed rows")
			}
			found, err := t.Discard(ctx, ids...)
			return changed(s, "are deleted", ids, found, err)
		}),
	}
}

func rowIDs(args []string) (ids []int64, err error) {
	for _, arg := range args {
		id, err := strconv.ParseInt(arg, 10, 64)
		if err != nil {
			return nil, cli.Usage("%q is not the id of a row: a number, as `forgequeue relay failed` shows it", arg)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// changed shows how many rows were found failed; that some were not is a failure.
func changed(s *cli.Screen, what string, asked, found []int64, err error) error {
	if err != nil {
		return cli.Environment(err)
	}
	if err := s.Show(map[string]int{"rows": len(found)}, func(t *cli.Table) { t.Pair("rows that "+what, len(found)) }); err != nil {
		return err
	}
	if len(found) < len(asked) {
		return fmt.Errorf("%d of %d are not failed rows", len(asked)-len(found), len(asked))
	}
	return nil
}
