package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/server/secret"
)

func newKeyEnsure(a *cli.App) *cobra.Command {
	var name, plan string
	command := &cobra.Command{
		Use:   "ensure FILE",
		Short: "Make sure that a file contains a valid key; can be repeated safely",
		Long: `Create the key file if it is missing or its key is invalid. A valid key is kept, whatever its scopes. Otherwise the
command creates the tenant of that name if there is none, creates a key with all scopes for it, and writes the file,
readable by its owner alone. A deployment gets its first key this way.`,
		Example: "  forgequeue key ensure secrets/keys/api_key --tenant-name default",
		Args:    cli.One(),
	}
	command.Flags().StringVar(&name, "tenant-name", "default", "the tenant's name")
	command.Flags().StringVar(&plan, "plan", "standard", "the plan of a tenant that is created")
	command.RunE = a.AsOperator(func(ctx context.Context, s *cli.Session, args []string) error {
		ok, err := holds(ctx, a, s, args[0])
		if err != nil {
			return err
		}
		if ok {
			fmt.Fprintf(s.Out, "%s contains a valid key\n", cli.Visible(args[0]))
			return nil
		}
		tenant, err := ensureTenant(ctx, s, name, plan)
		if err != nil {
			return err
		}
		key, err := s.Client.CreateKey(ctx, tenant.ID, api.KeyRequest{Scopes: api.Scopes()})
		if err != nil {
			return err
		}
		if err := writeKey(args[0], key.Secret); err != nil {
			return cli.Environment(err)
		}
		fmt.Fprintf(s.Out, "%s contains a new key of the tenant %s\n", cli.Visible(args[0]), tenant.ID)
		return nil
	})
	return command
}

// holds reports whether the file has a key that the server knows. It is an error if the server does not answer.
func holds(ctx context.Context, a *cli.App, s *cli.Session, path string) (bool, error) {
	text, err := secret.FromFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, cli.Environment(err)
	}
	server, err := a.OperatorServer(s.Screen)
	if err != nil {
		return false, err
	}
	own, err := client.New(client.Options{URL: server, APIKey: text.Reveal()})
	if err != nil {
		return false, cli.Environment(fmt.Errorf("%s: %w", path, err))
	}
	defer own.CloseIdleConnections()
	_, err = own.Whoami(ctx)
	if client.Status(err) == http.StatusUnauthorized {
		return false, nil
	}
	return err == nil, err
}

func ensureTenant(ctx context.Context, s *cli.Session, name, plan string) (api.Tenant, error) {
	list, err := cli.Collect(ctx, cli.Paging{}, s.Client.ListTenants)
	if err != nil {
		return api.Tenant{}, err
	}
	named := slices.DeleteFunc(list.Items, func(t api.Tenant) bool { return t.Name != name })
	switch len(named) {
	case 0:
	case 1:
		return named[0], nil
	default:
		return api.Tenant{}, fmt.Errorf("%d tenants have the name %s: create the key with forgequeue key create TENANT_ID", len(named), cli.Visible(name))
	}
	return s.Client.CreateTenant(ctx, api.TenantRequest{Name: name, Plan: &plan})
}

// writeKey replaces the file atomically.
func writeKey(path, key string) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".key-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // does nothing after the rename
	_, err = file.WriteString(key + "\n")
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
