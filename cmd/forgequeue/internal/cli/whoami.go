package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
)

func (a *App) whoami() *cobra.Command {
	return &cobra.Command{
		Use:   "whoami",
		Short: "Show what the API key is: tenant, user, scopes, plan",
		Args:  cobra.NoArgs,
		RunE: a.asTenant(func(ctx context.Context, s *session, _ []string) error {
			who, err := s.client.Whoami(ctx)
			if err != nil {
				return err
			}
			return s.show(who, func(t *table) {
				t.pair("key id", who.KeyID)
				t.pair("tenant", orElse(who.Tenant, "all (platform key)"))
				t.pair("user", orElse(who.User, "any"))
				t.pair("scopes", strings.Join(who.Scopes, ", "))
				t.pair("plan", orNone(who.Plan))
			})
		}),
	}
}

func orElse(text *string, otherwise string) string {
	if text == nil {
		return otherwise
	}
	return *text
}
