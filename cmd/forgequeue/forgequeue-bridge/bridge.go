package main

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/forgequeue-bridge/internal/bridge"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/syncwriter"
	"github.com/forgequeue/forgequeue/shared/api"
)

// bridgeFrom is the variable that names the source, so that its password is in no list of processes.
const bridgeFrom = "FORGEQUEUE_BRIDGE_FROM"

type bridgeFlags struct {
	from, queue, jobType string
	prefetch             int
}

func newBridge(a *cli.App) *cobra.Command {
	var f bridgeFlags
	command := &cobra.Command{
		Use:   "forgequeue-bridge --from URL",
		Short: "Submit the messages of a RabbitMQ or SQS queue as jobs",
		Long: `Take messages from a queue of RabbitMQ (AMQP 0-9-1) or SQS, and submit each as a job. The body is the payload:
JSON as it is, any other text as a JSON string. The message's id is the Idempotency-Key, so a message that comes
twice is one job. It is acked (deleted) when the server has stored its job.

  amqps://user:password@host:5671/queue?vhost=name    amqp:// without TLS
  sqs://sqs.eu-central-1.amazonaws.com/123456789012/queue
  sqs+http://localhost:4566/000000000000/queue?region=eu-central-1

Credentials for SQS come from the environment (AWS_ACCESS_KEY_ID, a profile, a role). ` + bridgeFrom + ` can contain the URL.

A message that the server refuses permanently (not valid, too large) is rejected without requeue, so that a dead-letter
exchange gets it; in SQS it stays for the queue's redrive policy. While the server is away, busy or does not accept the key,
messages wait: they are not lost and not made dead. Messages of a FIFO group are submitted in order. SIGTERM or
Ctrl-C: requests under way have 5 s to end, the other messages are given back.`,
		Example: `  ` + bridgeFrom + `=amqps://ada:secret@rabbit.example.com/orders forgequeue-bridge --queue orders
  forgequeue-bridge --from sqs://sqs.eu-central-1.amazonaws.com/123456789012/orders.fifo --queue orders --type order`,
		Args: cobra.NoArgs,
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, _ []string) error { return runBridge(ctx, a, s, &f) }),
	}
	flags := command.Flags()
	flags.StringVar(&f.from, "from", "", "URL of the source (default "+bridgeFrom+")")
	flags.StringVarP(&f.queue, "queue", "q", api.DefaultQueue, "queue of the jobs")
	flags.StringVar(&f.jobType, "type", "", "type of the jobs (default that of an AMQP message, or "+bridge.DefaultType+")")
	flags.IntVar(&f.prefetch, "prefetch", 100, "messages in flight, at most")
	return command
}

func runBridge(ctx context.Context, a *cli.App, s *cli.Session, f *bridgeFlags) error {
	text := cmp.Or(f.from, a.Getenv(bridgeFrom))
	switch {
	case text == "":
		return cli.Usage("--from or %s must name the source", bridgeFrom)
	case f.prefetch < 1 || f.prefetch > bridge.MaxPrefetch:
		return cli.Usage("--prefetch %d: must be between 1 and %d", f.prefetch, bridge.MaxPrefetch)
	case !api.ValidName(f.queue):
		return cli.Usage("--queue %q: cannot be a queue's name", f.queue)
	case f.jobType != "" && !api.ValidName(f.jobType):
		return cli.Usage("--type %q: cannot be a job's type", f.jobType)
	}
	from, err := bridge.Parse(text)
	if err != nil {
		return cli.Usage("the source %w", err)
	}
	logger := slog.New(slog.NewTextHandler(syncwriter.New(s.Err), nil))
	return bridge.New(bridge.Options{
		From: from, Client: s.Client, Queue: f.queue, Type: f.jobType, Prefetch: f.prefetch, Logger: logger,
	}).Run(ctx)
}
