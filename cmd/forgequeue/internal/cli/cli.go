// Package cli holds the commands that call a running ForgeQueue over its public
// API, one file for each noun: submit, job, queues, worker, tenant, …
//
// Every command follows the same rules. What was asked for goes to standard
// output, as a table or as the API's own JSON (-o json); all else goes to standard
// error. Colours and progress appear on a terminal only. The exit code is 0 for
// success, 1 for a failure, 2 for a wrong command line, 3 for a wrong environment
// and 4 for a wait that timed out.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/up"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/secret"
)

const defaultURL = "http://127.0.0.1:8080"

// Options are a command's surroundings; the zero value takes the process's own.
type Options struct {
	// Getenv reads the environment.
	Getenv func(name string) string
	// Local finds an `up` that runs on this machine.
	Local func() (up.Running, bool)
	// DefaultURL is where to call when FORGEQUEUE_URL is unset.
	DefaultURL string
}

// WithDefaults are the options with the process's own surroundings in the place of what is not set.
func (o Options) WithDefaults() Options {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Local == nil {
		o.Local = up.FindRunning
	}
	o.DefaultURL = cmp.Or(o.DefaultURL, defaultURL)
	return o
}

// App makes the commands.
type App struct {
	getenv     func(string) string
	local      func() (up.Running, bool)
	defaultURL string
}

// New makes an App.
func New(o Options) *App {
	o = o.WithDefaults()
	return &App{getenv: o.Getenv, local: o.Local, defaultURL: o.DefaultURL}
}

// Commands are all of them, for a root command to take in.
func (a *App) Commands() []*cobra.Command {
	all := []*cobra.Command{
		a.submit(), a.job(), a.jobs(), a.deadLetters(), a.redrives(), a.queues(), a.workers(), a.worker(),
		a.limits(), a.whoami(), a.tenant(), a.key(), a.plan(), a.audit(), a.doctor(), a.version(),
	}
	for _, command := range all {
		outputFlag(command)
	}
	return all
}

// session is one run of a command: whom it calls, and where it writes.
type session struct {
	*screen
	client  *client.Client
	command *cobra.Command
	getenv  func(string) string
}

type action func(ctx context.Context, s *session, args []string) error

// asTenant runs a command with the API key, asOperator with the operator key.
func (a *App) asTenant(run action) func(*cobra.Command, []string) error {
	return a.call("FORGEQUEUE_API_KEY", func(r up.Running) string { return r.APIKey }, run)
}

func (a *App) asOperator(run action) func(*cobra.Command, []string) error {
	return a.call("FORGEQUEUE_OPERATOR_KEY", operatorKeyOf, run)
}

func operatorKeyOf(r up.Running) string { return r.OperatorKey }

func (a *App) call(variable string, ofLocal func(up.Running) string, run action) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		s := &session{screen: a.screen(command), command: command, getenv: a.getenv}
		server, key, err := a.server(s.screen, variable, ofLocal)
		if err != nil {
			return err
		}
		if s.client, err = client.New(client.Options{URL: server, APIKey: key}); err != nil {
			return Environment(fmt.Errorf("FORGEQUEUE_URL, %s: %w", variable, err))
		}
		defer s.client.CloseIdleConnections()
		ctx := command.Context()
		return named(ctx, server, variable, run(ctx, s, args))
	}
}

// server says where to call and with which key. Where no key is given, that of an
// `up` on this machine is used, if it is the server that is meant: a key is told to
// nobody else.
func (a *App) server(s *screen, variable string, ofLocal func(up.Running) string) (server, key string, err error) {
	server = a.getenv("FORGEQUEUE_URL")
	if key, err = a.secret(variable); err != nil {
		return "", "", err
	}
	if endsInV1(server) {
		return "", "", Environment(errors.New(adviceV1))
	}
	if key != "" {
		return cmp.Or(server, a.defaultURL), key, nil
	}
	local, ok := a.local()
	switch {
	case !ok || ofLocal(local) == "":
		return "", "", Environment(fmt.Errorf("%s is not set, and no `forgequeue up` of yours runs here on its usual data folder; "+
			"set it to a key, and FORGEQUEUE_URL to the server (%s if unset)", variable, a.defaultURL))
	case server != "" && !sameServer(server, local.Gateway):
		// Without the URL's text: there may be a password in it.
		return "", "", Environment(fmt.Errorf("%s is not set; a `forgequeue up` of yours runs here at %s, but FORGEQUEUE_URL names another server, "+
			"so its key is not sent there; set %[1]s to a key of that server, or unset FORGEQUEUE_URL", variable, local.Gateway))
	}
	s.note("%s is not set: using the key of the `forgequeue up` that runs here (%s)", variable, local.Data)
	return local.Gateway, ofLocal(local), nil
}

// secret is a variable's value, or what is in the file that its NAME_FILE names;
// empty if neither is set.
func (a *App) secret(variable string) (string, error) {
	value, path := a.getenv(variable), a.getenv(variable+"_FILE")
	if value != "" || path == "" {
		return value, nil
	}
	text, err := secret.FromFile(path)
	if err != nil {
		return "", Environment(fmt.Errorf("%s_FILE: %w", variable, err))
	}
	return text.Reveal(), nil
}

const adviceV1 = "FORGEQUEUE_URL must not end in /v1, which each call adds by itself: give the gateway's address, such as " + defaultURL

func endsInV1(server string) bool { return strings.HasSuffix(strings.TrimRight(server, "/"), "/v1") }

// sameServer says whether two URLs lead to one server of this machine.
func sameServer(one, other string) bool {
	a, errA := url.Parse(strings.TrimRight(one, "/"))
	b, errB := url.Parse(strings.TrimRight(other, "/"))
	if errA != nil || errB != nil {
		return false
	}
	return a.Scheme == b.Scheme && a.Path == b.Path && a.Port() == b.Port() && ownHost(a.Hostname()) && ownHost(b.Hostname())
}

func ownHost(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// named says of a call that got no answer where it went, and of a key that is not
// known whose it was.
func named(ctx context.Context, server, variable string, err error) error {
	switch {
	case err == nil || interrupted(ctx):
		return err
	case client.Status(err) == http.StatusUnauthorized:
		return &strangerError{variable, server, err}
	case noAnswer(err):
		return &unreachableError{server, err}
	}
	return err
}
