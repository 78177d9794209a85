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
		Short:   "Create, list and revoke API keys",
		Long: `List, create and revoke API keys: those of the API key's own tenant, if that key has the scope admin; with a
TENANT_ID those of any tenant, with the operator's key in FORGEQUEUE_OPERATOR_KEY.`,
	}
	list := newKeyList(a)
	command.Flags().AddFlagSet(list.Flags()) // `key` alone is the list
	command.Args, command.RunE = cobra.NoArgs, list.RunE
	command.AddCommand(newKeyCreate(a), newKeyEnsure(a), list, newKeyRevoke(a), newKeyEndSessions(a))
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
		Long: `Create a key for the API key's own tenant, which needs the scope admin, or as the operator for the tenant with an
id; with --user it acts for that user only. --platform makes one that claims from the queues of all tenants, as the
operator. The key is shown once, here, and nowhere else.

A key with the scope admin can make keys with every scope. It is given only if --scopes names it.`,
		Example: `  forgequeue key create --scopes submit,read --expires 720h
  forgequeue key create 0199f0a4-7c1e-7000-8000-5d2c6f1e9a10 --scopes submit,read,admin
  forgequeue key create --platform`,
		Args: cobra.MaximumNArgs(1),
	}
	flags := command.Flags()
	flags.BoolVar(&platform, "platform", false, "a key for workers that serve all tenants")
	flags.StringVar(&user, "user", "", "bind the key to this user of the tenant")
	flags.StringSliceVar(&scopes, "scopes", api.UserScopes(), "what the key may do: these, or admin")
	flags.Var(&expires, "expires", "not valid after this time, or after this long, such as 720h")
	run := func(ctx context.Context, s *cli.Session, args []string) error {
		made, err := func() (api.NewKey, error) {
			key := api.KeyRequest{User: cli.Given(command, "user", user), Scopes: scopes, ExpiresAt: expires.At}
			switch {
			case platform:
				return s.Client.CreatePlatformKey(ctx, api.PlatformKeyRequest{ExpiresAt: expires.At})
			case len(args) == 0:
				return s.Client.CreateOwnKey(ctx, key)
			default:
				return s.Client.CreateKey(ctx, args[0], key)
			}
		}()
		if err != nil {
			return err
		}
		err = s.Show(made, func(t *cli.Table) {
			t.Pair("key", made.Secret)
			t.Pair("key id", made.KeyID)
			t.Pair("tenant", cli.OrElse(made.Tenant, "all (platform key)"))
			t.Pair("user", cli.OrElse(made.User, "any"))
			t.Pair("scopes", strings.Join(made.Scopes, ", "))
			t.Pair("expires", expiry(made.ExpiresAt))
		})
		if err != nil {
			return fmt.Errorf("the key was created, but could not be shown, and is never shown again: revoke %s: %w", made.KeyID, err)
		}
		return nil
	}
	command.RunE = func(command *cobra.Command, args []string) error {
		if platform && (len(args) > 0 || command.Flags().Changed("user") || command.Flags().Changed("scopes")) {
			return cli.Usage("--platform cannot be combined with a tenant, --user or --scopes: such a key belongs to no tenant, and has the scope work")
		}
		checked := func(ctx context.Context, s *cli.Session, args []string) error {
			if err := s.NoNames("it would not show the key, which is never shown again"); err != nil {
				return err
			}
			return run(ctx, s, args)
		}
		return ofTenant(a, platform || len(args) > 0, checked)(command, args)
	}
	return command
}

// ofTenant runs an action as the operator, for a tenant that it names, or with the API key, for that key's own.
func ofTenant(a *cli.App, operator bool, run func(context.Context, *cli.Session, []string) error) func(*cobra.Command, []string) error {
	if operator {
		return a.AsOperator(run)
	}
	return a.AsTenant(run)
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
		Use:   "list [TENANT_ID]",
		Short: "List a tenant's keys, without their secrets",
		Long: `List the keys of the API key's own tenant, which needs the scope admin, or as the operator those of the tenant
with an id.`,
		Args: cobra.MaximumNArgs(1),
	}
	page.Flags(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		return ofTenant(a, len(args) > 0, func(ctx context.Context, s *cli.Session, args []string) error {
			read := s.Client.OwnKeys
			if len(args) > 0 {
				read = func(ctx context.Context, p client.PageRequest) (api.Page[api.Key], error) {
					return s.Client.ListKeys(ctx, args[0], p)
				}
			}
			return cli.ShowList(ctx, s, page, read, keys)
		})(command, args)
	}
	return command
}

func keys(t *cli.Table, all []api.Key) {
	t.Head("KEY ID", "USER", cli.Long("SCOPES"), cli.Minor("CREATED"), "EXPIRES")
	for _, key := range all {
		t.Row(key.KeyID, cli.OrElse(key.User, "any"), strings.Join(key.Scopes, ","), key.CreatedAt, expiry(key.ExpiresAt))
	}
}

func newKeyRevoke(a *cli.App) *cobra.Command {
	var operator bool
	command := &cobra.Command{
		Use:   "revoke KEY_ID",
		Short: "Revoke a key; can be repeated safely",
		Long: `Revoke a key of the API key's own tenant, which needs the scope admin; with --operator a key of any tenant. A key
cannot revoke itself.`,
		Example: `  forgequeue key revoke 8y2k4m6n8p0q1r3s
  forgequeue key revoke --operator 8y2k4m6n8p0q1r3s`,
		Args: cli.One(),
	}
	command.Flags().BoolVar(&operator, "operator", false, "of all tenants, with the operator's key")
	command.RunE = func(command *cobra.Command, args []string) error {
		return ofTenant(a, operator, func(ctx context.Context, s *cli.Session, args []string) error {
			revoke := s.Client.RevokeOwnKey
			if operator {
				revoke = s.Client.RevokeKey
			}
			err := revoke(ctx, args[0])
			if cli.IsNotFound(err) && !operator {
				return cli.WithHint(err, "This revokes keys of the API key's own tenant. With --operator it revokes those of all tenants, with the operator key.")
			}
			if err != nil {
				return err
			}
			if !s.JSON { // the API answers 204, without a body
				fmt.Fprintf(s.Out, "%s is revoked\n", cli.Visible(args[0]))
			}
			return nil
		})(command, args)
	}
	return command
}

func newKeyEndSessions(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "end-sessions",
		Short: "Sign out every browser that has signed in to the console with the API key",
		Args:  cobra.NoArgs,
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, _ []string) error {
			if err := s.Client.EndSessions(ctx); err != nil {
				return err
			}
			if !s.JSON { // the API answers 204, without a body
				fmt.Fprintln(s.Out, "all console sessions of the key have ended")
			}
			return nil
		}),
	}
}
