// Package cli is what all commands share that call a running ForgeQueue over its public API: the connection
// (cli.go, server.go, profiles.go, completion.go), arguments and flags (args.go, flags.go, pages.go), output
// (screen.go, forms.go, table.go, text.go), errors and exit codes (exit.go, report.go).
//
// Every command follows the same rules. Results go to standard output, as a table or in the form of -o; everything
// else goes to standard error. Colours and progress appear on a terminal only. The exit code is 0 for success, 1 for
// a failure, 2 for a wrong command line, 3 where the server cannot be reached or used, 4 for a wait that timed out, and 5 for
// apply --dry-run where something differs.
package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cli/browser"
	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/localup"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

// Options are the environment of the commands. The zero value is the process's own.
type Options struct {
	// Getenv reads the environment.
	Getenv func(name string) string
	// Local finds the `up`s that run on this machine.
	Local func() []localup.Running
	// DefaultURL is the server's URL if FORGEQUEUE_URL is unset.
	DefaultURL string
	// ConfigDir is the user's folder of settings, in which profiles are kept.
	ConfigDir func() (string, error)
	// Browse opens a URL in the user's browser.
	Browse func(url string) error
	// CompletionTime bounds a completion from the server, for which a shell waits: a second.
	CompletionTime time.Duration
	// Exporter is how workers' spans are sent; nil in a program that was built without.
	Exporter telemetry.Exporter
}

// WithDefaults fills the unset fields with the process's own environment.
func (o Options) WithDefaults() Options {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Local == nil {
		o.Local = localup.Find
	}
	if o.ConfigDir == nil {
		o.ConfigDir = os.UserConfigDir
	}
	if o.Browse == nil {
		o.Browse = func(url string) error {
			browser.Stdout, browser.Stderr = io.Discard, io.Discard // of what looks for a browser; the error says that there is none
			return browser.OpenURL(url)
		}
	}
	o.DefaultURL = cmp.Or(o.DefaultURL, defaultURL)
	o.CompletionTime = cmp.Or(o.CompletionTime, time.Second)
	return o
}

// App runs commands: each gets a client for the server that the environment names.
type App struct{ Options }

// New makes an App.
func New(o Options) *App { return &App{o.WithDefaults()} }

// Session is one run of a command: its client and its output.
type Session struct {
	*Screen
	Client  *client.Client
	Command *cobra.Command
}

// action is the body of a command.
type action func(ctx context.Context, s *Session, args []string) error

// AsTenant makes a RunE that calls the server with the API key.
func (a *App) AsTenant(run action) func(*cobra.Command, []string) error {
	return a.call(tenantKey(), run)
}

// AsOperator makes a RunE that calls the server with the operator key.
func (a *App) AsOperator(run action) func(*cobra.Command, []string) error {
	return a.call(operatorKey(), run)
}

// TenantServer is the URL of the server that AsTenant calls.
func (a *App) TenantServer(s *Screen) (string, error) {
	t, err := a.server(s, tenantKey())
	return t.url, err
}

// OperatorServer is the URL of the server that AsOperator calls.
func (a *App) OperatorServer(s *Screen) (string, error) {
	t, err := a.server(s, operatorKey())
	return t.url, err
}

func tenantKey() keyKind {
	return keyKind{
		"API key", "FORGEQUEUE_API_KEY", func(r localup.Running) string { return r.APIKey }, func(p Profile) string { return p.APIKey },
	}
}

func operatorKey() keyKind {
	return keyKind{
		"operator key", "FORGEQUEUE_OPERATOR_KEY", func(r localup.Running) string { return r.OperatorKey }, func(p Profile) string { return p.OperatorKey },
	}
}

func (a *App) call(kind keyKind, run action) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		if err := noEmptyFilter(command); err != nil {
			return err
		}
		s := &Session{Screen: a.Screen(command), Command: command}
		to, err := a.server(s.Screen, kind)
		if err != nil {
			return err
		}
		if s.Client, err = client.New(client.Options{URL: to.url, APIKey: to.key, Logger: newRetries(s.Screen)}); err != nil {
			return Environment(fmt.Errorf("%s, %s: %w", to.urlFrom, to.keyFrom, err))
		}
		defer s.Client.CloseIdleConnections()
		ctx := command.Context()
		return explain(ctx, to, run(ctx, s, args))
	}
}
