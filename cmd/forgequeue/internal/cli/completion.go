package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/shared/client"
)

// Completion completes an argument or a flag with what list reads from the server, by the API key. Without a server or
// a key, or after CompletionTime, there are none: it writes nothing, and never fails.
func (a *App) Completion(list func(context.Context, *client.Client) ([]cobra.Completion, error)) cobra.CompletionFunc {
	return a.completion(tenantKey(), list)
}

// OperatorCompletion is Completion by the operator key.
func (a *App) OperatorCompletion(list func(context.Context, *client.Client) ([]cobra.Completion, error)) cobra.CompletionFunc {
	return a.completion(operatorKey(), list)
}

func (a *App) completion(kind keyKind, list func(context.Context, *client.Client) ([]cobra.Completion, error)) cobra.CompletionFunc {
	return func(command *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const nothing = cobra.ShellCompDirectiveNoFileComp
		screen := a.Screen(command)
		screen.Err = io.Discard
		to, err := a.server(screen, kind)
		if err != nil {
			return nil, nothing
		}
		c, err := client.New(client.Options{URL: to.url, APIKey: to.key})
		if err != nil {
			return nil, nothing
		}
		defer c.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(command.Context(), a.CompletionTime)
		defer cancel()
		found, _ := list(ctx, c)
		return found, nothing | cobra.ShellCompDirectiveKeepOrder
	}
}
