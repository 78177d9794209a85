package admin

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
)

func newWhoami(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "whoami",
		Short: "Show the tenant, user, scopes and plan of the API key",
		Args:  cobra.NoArgs,
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, _ []string) error {
			who, err := s.Client.Whoami(ctx)
			if err != nil {
				return err
			}
			return s.Show(who, func(t *cli.Table) {
				t.Pair("key id", who.KeyID)
				t.Pair("tenant", cli.OrElse(who.Tenant, "all (platform key)"))
				t.Pair("user", cli.OrElse(who.User, "any"))
				t.Pair("scopes", strings.Join(who.Scopes, ", "))
				t.Pair("plan", cli.OrElse(who.Plan, ""))
			})
		}),
	}
}
