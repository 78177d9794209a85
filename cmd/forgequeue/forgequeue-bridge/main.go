// Command forgequeue-bridge submits the messages of a RabbitMQ or SQS queue as jobs. It is not a part of forgequeue, so
// that AWS' client is compiled for those who need it.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/interrupt"
	"github.com/forgequeue/forgequeue/shared/server/build"
)

func main() {
	ctx, stop := interrupt.Context(context.Background())
	code := cli.Execute(ctx, newRoot())
	stop()
	os.Exit(code)
}

func newRoot() *cobra.Command {
	a := cli.New(cli.Options{})
	root := newBridge(a)
	a.ServerFlags(root)
	cli.OutputFlag(root)
	root.Version = "forgequeue-bridge " + build.This().String()
	root.SetVersionTemplate("{{.Version}}\n")
	return root
}
