package main

import (
	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/bench"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
)

func newBench(options cli.Options) *cobra.Command {
	options = options.WithDefaults()
	return bench.New(bench.Options{
		Getenv: options.Getenv,
		Local: func() (bench.Server, bool) {
			running, ok := cli.New(options).LocalAt("")
			return bench.Server{Gateway: running.Gateway, APIKey: running.APIKey, OperatorKey: running.OperatorKey, Data: running.Data}, ok
		},
		Environment: cli.Environment,
	})
}
