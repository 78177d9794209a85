package jobs

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
)

func newJobSignal(a *cli.App) *cobra.Command {
	var data string
	command := &cobra.Command{
		Use:   "signal ID NAME",
		Short: "Signal a job, which ends its wait",
		Long: `Signal a job under a name, with data. A job that waits for this signal is queued again; one that does not wait for it yet keeps
it. Of signals of one name the first stays: a repeat changes nothing.`,
		Example: `  forgequeue job signal "$ID" approved --data '{"by": "ada"}'
  forgequeue job list --state waiting`,
		Args: cli.All,
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			request := api.SignalRequest{Name: args[1]}
			if data != "" {
				var err error
				if request.Data, err = readJSON("data", data, s.In, api.MaxSignalData); err != nil {
					return err
				}
			}
			sent, err := s.Client.Signal(ctx, args[0], request)
			if err != nil {
				return err
			}
			if !sent.First {
				s.Note("The job had a signal %s before, which stays.", sent.Name)
			}
			return s.Show(sent, func(t *cli.Table) {
				t.Pair("signal", sent.Name)
				t.Pair("at", &sent.At)
			})
		}),
	}
	command.Flags().StringVarP(&data, "data", "d", "", "what the job is to know: JSON, @FILE or - for standard input")
	return command
}

func newJobSignalLink(a *cli.App) *cobra.Command {
	var title string
	var expires cli.Instant
	command := &cobra.Command{
		Use:   "signal-link ID NAME",
		Short: "Make a link that signals a job once, without a key",
		Long: `Make a link for a person without a key, such as for an approval by mail. It opens a page with a button, which sends this signal of
this job, once. The link is good until it expires, the job ends, or the key that made it is revoked.`,
		Example: `  forgequeue job signal-link "$ID" approved --title 'Refund order 1234?' --expires 72h`,
		Args:    cli.All,
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			request := api.SignalLinkRequest{Name: args[1], Title: title}
			if expires.At != nil {
				request.ExpiresMS = new(time.Until(expires.At.Time).Round(time.Second).Milliseconds())
			}
			link, err := s.Client.CreateSignalLink(ctx, args[0], request)
			if err != nil {
				return err
			}
			return s.Show(link, func(t *cli.Table) {
				t.Pair("url", link.URL)
				t.Pair("expires", &link.ExpiresAt)
			})
		}),
	}
	flags := command.Flags()
	flags.StringVar(&title, "title", "", "what its page asks (default the name)")
	flags.Var(&expires, "expires", "not valid after this time, or after this long (default 168h)")
	return command
}
