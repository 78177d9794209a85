package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// redriveGlance is how often a redrive is looked at while somebody watches.
const redriveGlance = 300 * time.Millisecond

func (a *App) redrives() *cobra.Command {
	command := &cobra.Command{
		Use:   "redrives",
		Short: "Redrives and discards by filter: list, get, watch, cancel",
		Args:  known,
	}
	list := a.redrivesList()
	command.RunE = list.RunE
	command.AddCommand(list, a.redrivesGet(), a.redrivesWatch(), a.redrivesCancel())
	return command
}

func (a *App) redrivesList() *cobra.Command {
	var page paging
	command := &cobra.Command{Use: "list", Short: "List redrives and discards by filter, newest first", Args: cobra.NoArgs}
	page.flags(command)
	command.RunE = a.asTenant(func(ctx context.Context, s *session, _ []string) error {
		list, err := collect(page, func(p client.PageRequest) (api.Page[api.Redrive], error) { return s.client.Redrives(ctx, p) })
		if err != nil {
			return err
		}
		return showPage(s, list, func(t *table) {
			t.row("ID", "ACTION", "STATE", "DONE", "MATCHED", "REFUSED", "CREATED", "WAITING")
			for _, r := range list.Items {
				waiting := ""
				if r.Waiting != nil {
					waiting = *r.Waiting
				}
				t.row(r.ID, r.Action, r.State, r.Done, counted(api.Matched{Matched: r.Matched, MatchedCapped: r.MatchedCapped}), r.Refused, stamp(&r.CreatedAt), waiting)
			}
		})
	})
	return command
}

func (a *App) redrivesGet() *cobra.Command {
	command := &cobra.Command{Use: "get ID", Short: "Show how far a redrive or a discard got", Args: one()}
	command.RunE = a.asTenant(func(ctx context.Context, s *session, args []string) error {
		r, err := s.client.GetRedrive(ctx, args[0])
		if err != nil {
			return err
		}
		return s.show(r, func(t *table) { oneRedrive(t, r) })
	})
	return command
}

func (a *App) redrivesWatch() *cobra.Command {
	command := &cobra.Command{Use: "watch ID", Short: "Wait for the end of a redrive or a discard", Args: one()}
	command.RunE = a.asTenant(func(ctx context.Context, s *session, args []string) error {
		r, err := s.client.GetRedrive(ctx, args[0])
		if err != nil {
			return err
		}
		return s.follow(ctx, r)
	})
	return command
}

func (a *App) redrivesCancel() *cobra.Command {
	command := &cobra.Command{Use: "cancel ID", Short: "End a redrive or a discard; what was done stays done", Args: one()}
	command.RunE = a.asTenant(func(ctx context.Context, s *session, args []string) error {
		r, err := s.client.CancelRedrive(ctx, args[0])
		if err != nil {
			return err
		}
		return s.show(r, func(t *table) { oneRedrive(t, r) })
	})
	return command
}

func oneRedrive(t *table, r api.Redrive) {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	t.pair("id", r.ID)
	t.pair("action", r.Action)
	t.pair("state", r.State)
	t.pair("matched", counted(api.Matched{Matched: r.Matched, MatchedCapped: r.MatchedCapped}))
	t.pair("done", fmt.Sprint(r.Done))
	t.pair("refused", fmt.Sprint(r.Refused))
	if r.RatePerSecond != nil {
		t.pair("rate", fmt.Sprintf("%g a second", *r.RatePerSecond))
	}
	t.pair("waiting", text(r.Waiting))
	t.pair("error", text(r.Error))
	t.pair("created", stamp(&r.CreatedAt))
	t.pair("ended", stamp(r.EndedAt))
}

// follow watches a redrive to its end. Whoever stops watching does not stop it.
func (s *session) follow(ctx context.Context, r api.Redrive) error {
	bar, end := s.progress(int(max(r.Matched, 1)), true, r.Action)
	waiting := false
	for r.State == api.RedriveRunning {
		if bar != nil {
			_ = bar.Set64(r.Done) // nobody to be told
		}
		if now := r.Waiting != nil; now != waiting {
			if waiting = now; now {
				s.note("%s: a cap on active jobs is full; it goes on when jobs have ended", r.ID)
			}
		}
		if err := wait.For(ctx, redriveGlance); err != nil {
			end()
			s.note("%s goes on: forgequeue redrives watch %[1]s, or cancel", r.ID)
			return err
		}
		now, err := s.client.GetRedrive(ctx, r.ID)
		if err != nil && ctx.Err() == nil {
			end()
			s.note("%s goes on: forgequeue redrives watch %[1]s, or cancel", r.ID)
			return err
		}
		if err == nil {
			r = now
		}
	}
	end()
	return s.tellRedrive(r)
}

// tellRedrive says how it ended.
func (s *session) tellRedrive(r api.Redrive) error {
	done := "queued again"
	if r.Action == api.ActionDiscard {
		done = "discarded"
	}
	if err := s.show(r, func(t *table) { t.row(fmt.Sprintf("%d %s, %d refused", r.Done, done, r.Refused)) }); err != nil {
		return err
	}
	switch {
	case r.State == api.RedriveFailed && r.Error != nil:
		return errors.New(*r.Error)
	case r.State == api.RedriveCancelled:
		return fmt.Errorf("%s was cancelled", r.ID)
	case r.Refused > 0:
		s.note("%d stay dead: live jobs have their dedupe_key", r.Refused)
		return errSaid
	}
	return nil
}
