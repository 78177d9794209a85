package admin

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func newWebhook(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:     "webhook",
		Aliases: []string{"webhooks"},
		Short:   "Webhooks, which call your URL when jobs end and queues stall: set, list, get, test, rotate-secret, delete",
		Args:    cobra.NoArgs,
	}
	list := cli.List(a.AsTenant, "list", "List webhooks with their deliveries and their last call", (*client.Client).Webhooks, webhooks)
	command.Flags().AddFlagSet(list.Flags()) // `webhook` alone is the list
	command.RunE = list.RunE
	command.AddCommand(
		list, newWebhookSet(a),
		cli.Call(a.AsTenant, "get NAME", "Show a webhook, its deliveries and its last call", (*client.Client).Webhook, describeWebhook),
		cli.Call(a.AsTenant, "test NAME", "Send a test event, and show the job that delivers it", func(c *client.Client, ctx context.Context, name string) (api.JobSummary, error) {
			return c.TestWebhook(ctx, name)
		}, describeTest),
		cli.Call(a.AsTenant, "probe NAME", "Try its URL now, although the breaker is open", (*client.Client).ProbeWebhook, describeWebhook),
		newWebhookRotate(a),
		cli.Delete(a.AsTenant, "delete NAME", "Delete a webhook with its waiting and failed deliveries", (*client.Client).DeleteWebhook),
	)
	return command
}

func webhooks(t *cli.Table, all []api.Webhook) {
	t.Head("NAME", "STATE", "EVENTS", cli.Minor("URL"), "WAITING", "DEAD", cli.Minor("LAST CALL"))
	for _, one := range all {
		d := one.Deliveries
		t.Row(one.Name, webhookState(one), strings.Join(one.Events, ","), one.URL, d.Waiting+d.Running, d.DeadLetter, lastCall(d))
	}
}

func webhookState(one api.Webhook) cli.Cell {
	switch {
	case one.Paused:
		return cli.Coloured("paused", cli.Yellow)
	case one.Breaker != nil && one.Breaker.State != api.BreakerClosed:
		return cli.Coloured("breaker "+one.Breaker.State, cli.Red)
	}
	return cli.Coloured("active", cli.Green)
}

// lastCall is how the last call ended; empty before the first.
func lastCall(d api.WebhookDeliveries) string {
	switch {
	case d.LastStatus != nil:
		return strconv.Itoa(*d.LastStatus)
	case d.LastError != nil:
		return *d.LastError
	}
	return ""
}

func describeWebhook(t *cli.Table, one api.Webhook) {
	t.Pair("name", one.Name)
	t.Pair("state", webhookState(one))
	t.Pair("label", cli.OrElse(one.Label, ""))
	t.Pair("url", one.URL)
	t.Pair("events", strings.Join(one.Events, ", "))
	t.Pair("of queue", cli.OrElse(one.Filter.Queue, ""))
	t.Pair("of type", cli.OrElse(one.Filter.Type, ""))
	t.Pair("with tag", cli.OrElse(one.Filter.Tag, ""))
	t.Pair("thresholds", thresholds(&one))
	if one.Secret != nil {
		t.Pair("secret", *one.Secret+"  (shown only now)")
	}
	t.Pair("previous secret until", one.PreviousSecretUntil)
	t.Pair("waiting", one.Deliveries.Waiting)
	t.Pair("running", one.Deliveries.Running)
	t.Pair("dead letters", one.Deliveries.DeadLetter)
	t.Pair("last call", lastCall(one.Deliveries))
	t.Pair("last call at", one.Deliveries.LastAt)
	t.Pair("deliveries", "forgequeue job --queue "+one.Queue)
}

// thresholds are those of the states whose events the webhook gets, as the flag takes them.
func thresholds(one *api.Webhook) string {
	var told []string
	for _, state := range append(api.AlertStates(), api.ThresholdEnded) {
		wanted := state == api.ThresholdEnded && len(told) > 0 || slices.Contains(one.Events, state) || slices.Contains(one.Events, api.AlertEnd(state))
		if field := one.Thresholds.Field(state); field != nil && *field != nil && wanted {
			told = append(told, state+"="+one.Thresholds.Of(state).String())
		}
	}
	return strings.Join(told, ", ")
}

// webhookFlags are a webhook's settings as flags.
type webhookFlags struct {
	url, queue, jobType, tag string
	events                   []string
	thresholds               map[string]string
	paused                   bool
}

// setThresholds changes those that are given.
func (f *webhookFlags) setThresholds(to *api.Thresholds) error {
	for state, text := range f.thresholds {
		field := to.Field(state)
		if field == nil {
			return fmt.Errorf("--threshold %s=%s: there is no threshold of this name; see --help for the events", state, text)
		}
		held, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("--threshold %s=%s: the value is a duration such as 90s or 10m", state, text)
		}
		*field = new(held.Milliseconds())
	}
	return nil
}

func newWebhookSet(a *cli.App) *cobra.Command {
	var f webhookFlags
	command := &cobra.Command{
		Use:   "set NAME",
		Short: "Create a webhook, or change its settings",
		Long: `Create a webhook, or change its settings. What is not given stays as it is. The secret that signs the calls is shown
once, when the webhook is created. The word none removes a filter.`,
		Example: `  forgequeue webhook set failures --endpoint https://example.com/hooks --event job.dead_letter
  forgequeue webhook set invoices --endpoint https://example.com/hooks --event job.completed,job.cancelled --queue invoices
  forgequeue webhook set alerts --endpoint https://example.com/alerts --event queue.stalled,queue.recovered --threshold queue.stalled=10m`,
		Args: cli.One(),
	}
	run := a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error { return setWebhook(ctx, s, args[0], &f) })
	command.RunE = func(command *cobra.Command, args []string) error {
		err := run(command, args)
		if changed := command.Flags().Changed; err != nil && changed("url") && !changed("endpoint") {
			return cli.WithHint(err, "--url is the URL of the gateway. The URL of the webhook is --endpoint URL.")
		}
		return err
	}
	flags := command.Flags()
	flags.StringVar(&f.url, "endpoint", "", "URL that is called with each event")
	flags.StringSliceVar(&f.events, "event", nil, strings.Join(api.WebhookEvents(), ", ")+"; repeatable")
	flags.StringToStringVar(&f.thresholds, "threshold", nil, "how long a state lasts before it is an event, such as queue.stalled=10m; ended=2m is for its end; repeatable")
	flags.StringVarP(&f.queue, "queue", "q", "", "only jobs of this queue, or none")
	flags.StringVar(&f.jobType, "type", "", "only jobs of this type, or none")
	flags.StringVar(&f.tag, "tag", "", "only jobs with this tag, or none")
	flags.BoolVar(&f.paused, "paused", false, "stop deliveries; they are kept for two days")
	return command
}

func setWebhook(ctx context.Context, s *cli.Session, name string, f *webhookFlags) error {
	if err := s.NoNames("it would not show the secret of a new webhook, which is never shown again"); err != nil {
		return err
	}
	request := api.WebhookRequest{Filter: &api.WebhookFilter{}, Thresholds: &api.Thresholds{}}
	// The API replaces all settings, so those that are not given are sent as they are.
	one, err := s.Client.Webhook(ctx, name)
	switch {
	case err == nil:
		request = one.Request()
	case !cli.IsNotFound(err):
		return err
	}
	changed := s.Command.Flags().Changed
	if changed("endpoint") {
		request.URL = f.url
	}
	if changed("event") {
		request.Events = f.events
	}
	if changed("paused") {
		request.Paused = f.paused
	}
	if err := f.setThresholds(request.Thresholds); err != nil {
		return err
	}
	for name, to := range map[string]struct {
		value string
		field **string
	}{
		"queue": {f.queue, &request.Filter.Queue}, "type": {f.jobType, &request.Filter.Type}, "tag": {f.tag, &request.Filter.Tag},
	} {
		if !changed(name) {
			continue
		}
		*to.field = nil
		if to.value != none {
			*to.field = &to.value
		}
	}
	if one, err = s.Client.PutWebhook(ctx, name, request); err != nil {
		return err
	}
	return s.Show(one, func(t *cli.Table) { describeWebhook(t, one) })
}

func describeTest(t *cli.Table, delivery api.JobSummary) {
	t.Pair("delivery", delivery.ID)
	t.Pair("state", delivery.State)
	t.Pair("follow it", "forgequeue job watch "+delivery.ID)
}

func newWebhookRotate(a *cli.App) *cobra.Command {
	command := &cobra.Command{Use: "rotate-secret NAME", Short: "Create a new secret, and show it once; calls carry both signatures for 24 hours", Args: cli.One()}
	command.RunE = a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
		if err := s.NoNames("it would not show the new secret, which is never shown again"); err != nil {
			return err
		}
		one, err := s.Client.RotateWebhookSecret(ctx, args[0])
		if err != nil {
			return err
		}
		return s.Show(one, func(t *cli.Table) { describeWebhook(t, one) })
	})
	return command
}
