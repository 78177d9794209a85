//go:build unix

package up

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/localup"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/build"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// waitReady polls the gateway until it and core are ready.
func waitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	var last string
	for {
		ready, answer := isReady(ctx, url)
		if ready {
			return nil
		}
		last = answer
		if wait.For(ctx, 20*time.Millisecond) != nil {
			if context.Cause(ctx) == context.DeadlineExceeded { //nolint:errorlint // Cause returns it unwrapped
				return fmt.Errorf("the services are not ready after %v; the last answer was %s", readyTime, last)
			}
			return context.Cause(ctx)
		}
	}
}

// readyClient follows no redirect: a gateway sends none, and another server's answer is not the gateway's.
var readyClient = &http.Client{ //nolint:gochecknoglobals // as http.DefaultClient
	Timeout:       readyTime,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func isReady(ctx context.Context, url string) (bool, string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		return false, err.Error()
	}
	response, err := readyClient.Do(request)
	if err != nil {
		return false, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	var readiness api.Readiness
	if err := json.NewDecoder(response.Body).Decode(&readiness); err != nil {
		return false, err.Error()
	}
	return response.StatusCode == http.StatusOK && readiness.Checks["core"] == "ok", fmt.Sprint(response.StatusCode, readiness)
}

// ensureKeys makes the first tenant and its keys. A stored key that the server refuses, since it was revoked or has
// expired, is replaced by a new one of the same tenant. Only if the database does not know the tenant, and so is another
// one, a new tenant is made. What it does to a stored key is written to errs.
func ensureKeys(ctx context.Context, url string, f *folder, kept *credentials, errs io.Writer) error {
	operator, err := client.New(client.Options{URL: url, APIKey: kept.OperatorKey})
	if err != nil {
		return err
	}
	defer operator.CloseIdleConnections()
	ownWorks, err := works(ctx, url, kept.APIKey)
	if err != nil {
		return fmt.Errorf("the stored API key cannot be checked: %w", err)
	}
	platformWorks, err := works(ctx, url, kept.PlatformKey)
	if err != nil {
		return fmt.Errorf("the stored platform key cannot be checked: %w", err)
	}
	if ownWorks && platformWorks {
		return nil
	}
	before := *kept
	if !ownWorks {
		if err := newOwnKey(ctx, operator, kept); err != nil {
			return err
		}
	}
	if !platformWorks {
		platform, err := operator.CreatePlatformKey(ctx, api.PlatformKeyRequest{})
		if err != nil {
			return fmt.Errorf("the platform key cannot be made: %w", err)
		}
		kept.PlatformKey = platform.Secret
	}
	if err := f.saveCredentials(*kept); err != nil {
		return err
	}
	sayReplaced(errs, f.join(localup.CredentialsFile), before, *kept)
	return nil
}

// newOwnKey makes an API key of the stored tenant, or of a new one if the database has no such tenant.
func newOwnKey(ctx context.Context, operator *client.Client, kept *credentials) error {
	known := false
	if kept.Tenant != "" {
		_, err := operator.GetTenant(ctx, kept.Tenant)
		if err != nil && client.Status(err) != http.StatusNotFound {
			return fmt.Errorf("the stored tenant cannot be read: %w", err)
		}
		known = err == nil
	}
	if !known {
		plan := "unlimited" // the only tenant on the user's own machine
		tenant, err := operator.CreateTenant(ctx, api.TenantRequest{Name: "default", Plan: &plan})
		if err != nil {
			return fmt.Errorf("the first tenant cannot be made: %w", err)
		}
		kept.Tenant = tenant.ID
	}
	key, err := operator.CreateKey(ctx, kept.Tenant, api.KeyRequest{Scopes: api.Scopes()})
	if err != nil {
		return fmt.Errorf("the API key cannot be made: %w", err)
	}
	kept.APIKey = key.Secret
	return nil
}

// sayReplaced says which stored keys were replaced; nothing at the first start.
func sayReplaced(errs io.Writer, file string, before, now credentials) {
	if before.APIKey != "" && before.APIKey != now.APIKey {
		if before.Tenant == now.Tenant {
			_, _ = fmt.Fprintf(errs, "the stored API key is no longer valid: %s has a new one for the same tenant %s\n", file, now.Tenant)
		} else {
			_, _ = fmt.Fprintf(errs, "this database has no tenant %s, so it is another one than before: %s has a new tenant %s and its key\n", before.Tenant, file, now.Tenant)
		}
	}
	if before.PlatformKey != "" && before.PlatformKey != now.PlatformKey {
		_, _ = fmt.Fprintf(errs, "the stored platform key is no longer valid: %s has a new one\n", file)
	}
}

// works reports whether the server takes a key. It is an error if the server says neither yes nor no.
func works(ctx context.Context, url, key string) (bool, error) {
	if key == "" {
		return false, nil
	}
	c, err := client.New(client.Options{URL: url, APIKey: key})
	if err != nil {
		return false, err
	}
	defer c.CloseIdleConnections()
	_, err = c.Whoami(ctx)
	if client.Status(err) == http.StatusUnauthorized {
		return false, nil
	}
	return err == nil, err
}

// ready is what `up --json` prints.
type ready struct {
	Version     string       `json:"version"`
	Gateway     string       `json:"gateway"`
	APIKey      string       `json:"api_key"`
	OperatorKey string       `json:"operator_key"`
	PlatformKey string       `json:"platform_key"`
	DatabaseURL string       `json:"database_url"`
	Redis       readyRedis   `json:"redis"`
	Data        string       `json:"data"`
	Metrics     readyMetrics `json:"metrics"`
	// Console is the URL of the web console; empty where it is off.
	Console string `json:"console"`

	database string
	// signIn is the URL that signs a browser in, once.
	signIn string
}

type readyRedis struct {
	Mode string `json:"mode"`
	URL  string `json:"url"`
}

type readyMetrics struct {
	Gateway string `json:"gateway"`
	Core    string `json:"core"`
}

func newReady(url string, kept *credentials, held *stores, f *folder, a *addresses) ready {
	return ready{
		Version: build.This().Version, Gateway: url, APIKey: kept.APIKey, OperatorKey: kept.OperatorKey, PlatformKey: kept.PlatformKey,
		DatabaseURL: held.databaseURL, Redis: readyRedis{held.redisMode, held.redisURL}, Data: f.path,
		Metrics: readyMetrics{
			"http://" + a.gatewayMetrics.Addr().String() + "/metrics", "http://" + a.coreMetrics.Addr().String() + "/metrics",
		},
		database: held.databaseFrom + " (" + held.shownDatabase() + ")",
	}
}

// openConsole makes the link that signs the owner in. Without the console there is none.
func (r *ready) openConsole(ctx context.Context) error {
	c, err := client.New(client.Options{URL: r.Gateway, APIKey: r.APIKey})
	if err != nil {
		return err
	}
	defer c.CloseIdleConnections()
	link, err := c.ConsoleLink(ctx)
	if refused, ok := problem.From(err); ok && refused.Code == problem.NotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the console cannot be opened: %w", err)
	}
	r.Console, r.signIn = r.Gateway+"/console", r.Gateway+link.Path
	return nil
}

// announce writes that everything is ready, as JSON or as text.
func announce(o Options, r ready) error {
	if o.JSON {
		encoder := json.NewEncoder(o.Out)
		encoder.SetEscapeHTML(false) // URLs stay readable
		return encoder.Encode(r)
	}
	redis := map[string]string{
		redisGiven:     "given by REDIS_URL",
		redisChild:     "started here, on a socket",
		redisInProcess: "NOT INSTALLED: a stand-in runs in this process (install redis-server or valkey for the real one)",
	}[r.Redis.Mode]
	demo := "no sample worker (--demo=false)"
	job, then := `{"type":"greet","queue":"mine","payload":{"name":"Ada"}}`, `It waits for a worker of the queue mine. One that runs a command for each job:

    FORGEQUEUE_URL=`+r.Gateway+` FORGEQUEUE_API_KEY=`+r.APIKey+` \
      forgequeue worker run --queue mine -- cat

  The job`
	if o.Demo {
		demo = "a sample worker serves text.stats, hash.sha256 and flaky in the queue default"
		job, then = `{"type":"hash.sha256","payload":{"text":"hello"}}`, "and"
	}
	console := "off (FORGEQUEUE_CONSOLE)"
	if r.Console != "" {
		console = r.Console + "     (jobs, queues, dead letters, workflows, live)\n              sign in: " + r.signIn
	}
	_, err := fmt.Fprintf(o.Out, `
  ForgeQueue %[13]s is up.    Ctrl-C drains and stops everything.

  Console     %[12]s
  API         %[1]s     (FORGEQUEUE_URL; calls add /v1)
  API docs    %[1]s/docs     (read it, and try it out with the key)
  API key     %[2]s
  Data, logs  %[3]s     (kept: the same command continues with them)
  PostgreSQL  %[4]s
  Redis       %[5]s
  Metrics     %[6]s
              %[7]s
  Demo        %[8]s

  For commands in another shell; the operator key is in %[11]s, as operator_key:

    export FORGEQUEUE_URL=%[1]s
    export FORGEQUEUE_API_KEY=%[2]s

  A first job:

    curl -s %[1]s/v1/jobs \
      -H 'Authorization: Bearer %[2]s' \
      -H 'Content-Type: application/json' \
      -d '%[9]s'

  %[10]s, with the id that it answers:

    curl -s %[1]s/v1/jobs/ID -H 'Authorization: Bearer %[2]s'

`, r.Gateway, r.APIKey, r.Data, r.database, redis, r.Metrics.Gateway, r.Metrics.Core, demo, job, then, filepath.Join(r.Data, localup.CredentialsFile), console, r.Version)
	return err
}
