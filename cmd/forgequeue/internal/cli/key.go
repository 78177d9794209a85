package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func (a *App) key() *cobra.Command {
	command := &cobra.Command{
		Use:     "key",
		Aliases: []string{"keys"},
		Short:   "Make, list and revoke API keys (operator)",
		Long:    "Make, list and revoke API keys. It needs the operator's key, in FORGEQUEUE_OPERATOR_KEY.",
	}
	command.AddCommand(a.keyCreate(), a.keyEnsure(), a.keyList(), a.keyRevoke())
	return command
}

func (a *App) keyCreate() *cobra.Command {
	var platform bool
	var user string
	var scopes []string
	var expires instant
	command := &cobra.Command{
		Use:   "create [TENANT_ID]",
		Short: "Make a key for a tenant, for one user of it, or for the platform",
		Long: `Make a key for a tenant; with --user it acts for that user only. --platform makes one that claims from the
queues of all tenants. The key is shown once, here, and nowhere else.`,
		Example: `  forgequeue key create 0199f0a4-… --scopes submit,read --expires 720h
  forgequeue key create --platform`,
		Args: cobra.MaximumNArgs(1),
	}
	flags := command.Flags()
	flags.BoolVar(&platform, "platform", false, "a key for workers that serve all tenants")
	flags.StringVar(&user, "user", "", "bind the key to this user of the tenant")
	flags.StringSliceVar(&scopes, "scopes", api.Scopes(), "what the key may do")
	flags.Var(&expires, "expires", "not valid after this time, or after this long, such as 720h")
	command.RunE = a.asOperator(func(ctx context.Context, s *session, args []string) error {
		var made api.NewKey
		var err error
		switch {
		case platform && (len(args) > 0 || command.Flags().Changed("user") || command.Flags().Changed("scopes")):
			return usage("--platform stands alone: such a key belongs to no tenant, and has the scope work")
		case platform:
			made, err = s.client.CreatePlatformKey(ctx, api.PlatformKeyRequest{ExpiresAt: expires.at})
		case len(args) == 0:
			return usage("name the tenant by its id, or give --platform")
		default:
			made, err = s.client.CreateKey(ctx, args[0], api.KeyRequest{User: given(command, "user", user), Scopes: scopes, ExpiresAt: expires.at})
		}
		if err != nil {
			return err
		}
		return s.show(made, func(t *table) {
			t.pair("key", made.Secret)
			t.pair("key id", made.KeyID)
			t.pair("tenant", orElse(made.Tenant, "all (platform key)"))
			t.pair("user", orElse(made.User, "any"))
			t.pair("scopes", strings.Join(made.Scopes, ", "))
			t.pair("expires", expiry(made.ExpiresAt))
		})
	})
	return command
}

func expiry(at *api.Time) string {
	if at == nil {
		return "never"
	}
	return stamp(at)
}

func (a *App) keyList() *cobra.Command {
	var page paging
	command := &cobra.Command{
		Use:   "list TENANT_ID",
		Short: "List a tenant's keys, without their secrets",
		Args:  one(),
		RunE: a.asOperator(func(ctx context.Context, s *session, args []string) error {
			list, err := collect(page, func(p client.PageRequest) (api.Page[api.Key], error) { return s.client.ListKeys(ctx, args[0], p) })
			if err != nil {
				return err
			}
			return showPage(s, list, func(t *table) {
				t.row("KEY ID", "USER", "SCOPES", "EXPIRES")
				for _, key := range list.Items {
					t.row(key.KeyID, orElse(key.User, "any"), strings.Join(key.Scopes, ","), expiry(key.ExpiresAt))
				}
			})
		}),
	}
	page.flags(command)
	return command
}

func (a *App) keyRevoke() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke KEY_ID",
		Short: "End a key; harmless to repeat",
		Args:  one(),
		RunE: a.asOperator(func(ctx context.Context, s *session, args []string) error {
			if err := s.client.RevokeKey(ctx, args[0]); err != nil {
				return err
			}
			if !s.json { // the API answers 204, without a body
				fmt.Fprintf(s.out, "%s is revoked\n", visible(args[0]))
			}
			return nil
		}),
	}
}
