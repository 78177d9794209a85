package admin

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func newKey(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:     "key",
		Aliases: []string{"keys"},
		Short:   "Create, list and revoke API keys (operator)",
		Long:    "Make, list and revoke API keys. It needs the operator's key, in FORGEQUEUE_OPERATOR_KEY.",
	}
	command.AddCommand(newKeyCreate(a), newKeyEnsure(a), newKeyList(a), newKeyRevoke(a))
	return command
}

func newKeyCreate(a *cli.App) *cobra.Command {
	var platform bool
	var user string
	var scopes []string
	var expires cli.Instant
	command := &cobra.Command{
		Use:   "create [TENANT_ID]",
		Short: "Create a key for a tenant, for one of its users, or for the platform",
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
	command.RunE = a.AsOperator(func(ctx context.Context, s *cli.Session, args []string) error {
		var made api.NewKey
		err := s.NoNames("it would not show the key, which is never shown again")
		switch {
		case err != nil:
			return err
		case platform && (len(args) > 0 || command.Flags().Changed("user") || command.Flags().Changed("scopes")):
			return cli.Usage("--platform stands alone: such a key belongs to no tenant, and has the scope work")
		case platform:
			made, err = s.Client.CreatePlatformKey(ctx, api.PlatformKeyRequest{ExpiresAt: expires.At})
		case len(args) == 0:
			return cli.Usage("name the tenant by its id, or give --platform")
		default:
			made, err = s.Client.CreateKey(ctx, args[0], api.KeyRequest{User: cli.Given(command, "user", user), Scopes: scopes, ExpiresAt: expires.At})
		}
		if err != nil {
			return err
		}
		return s.Show(made, func(t *cli.Table) {
			t.Pair("key", made.Secret)
			t.Pair("key id", made.KeyID)
			t.Pair("tenant", cli.OrElse(made.Tenant, "all (platform key)"))
			t.Pair("user", cli.OrElse(made.User, "any"))
			t.Pair("scopes", strings.Join(made.Scopes, ", "))
			t.Pair("expires", expiry(made.ExpiresAt))
		})
	})
	return command
}

func expiry(at *api.Time) string {
	if at == nil {
		return "never"
	}
	return cli.Stamp(at)
}

func newKeyList(a *cli.App) *cobra.Command {
	var page cli.Paging
	command := &cobra.Command{
		Use:   "list TENANT_ID",
		Short: "List a tenant's keys, without their secrets",
		Args:  cli.One(),
		RunE: a.AsOperator(func(ctx context.Context, s *cli.Session, args []string) error {
			read := func(ctx context.Context, p client.PageRequest) (api.Page[api.Key], error) {
				return s.Client.ListKeys(ctx, args[0], p)
			}
			return cli.ShowList(ctx, s, page, read, keys)
		}),
	}
	page.Flags(command)
	return command
}

func keys(t *cli.Table, all []api.Key) {
	t.Head("KEY ID", "USER", cli.Long("SCOPES"), "EXPIRES")
	for _, key := range all {
		t.Row(key.KeyID, cli.OrElse(key.User, "any"), strings.Join(key.Scopes, ","), expiry(key.ExpiresAt))
	}
}

func newKeyRevoke(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke KEY_ID",
		Short: "Revoke a key; can be repeated safely",
		Args:  cli.One(),
		RunE: a.AsOperator(func(ctx context.Context, s *cli.Session, args []string) error {
			if err := s.Client.RevokeKey(ctx, args[0]); err != nil {
				return err
			}
			if !s.JSON { // the API answers 204, without a body
				fmt.Fprintf(s.Out, "%s is revoked\n", cli.Visible(args[0]))
			}
			return nil
		}),
	}
}
