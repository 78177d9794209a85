package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/localup"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/server/diagnosis"
)

// noKey is sent as the key to routes that need none: the client requires one.
const noKey = "none"

// examineGateway checks the gateway from outside, as any client sees it. by is what named it.
func examineGateway(ctx context.Context, a *cli.App, named cli.Profile, by string, local localup.Running, r *report) {
	server := cmp.Or(named.URL, local.Gateway)
	if err := cli.CheckURL(by, server); err != nil {
		r.looked, r.unreached = true, true
		r.add(diagnosis.LevelFail, "gateway", err.Error(), "correct "+by)
		return
	}
	if server == "" {
		if server = a.DefaultURL; !answers(ctx, server) {
			r.add(levelSkip, "gateway", "FORGEQUEUE_URL is not set, and nothing answers at "+server, "set it to have the gateway and your key looked at")
			return
		}
	}
	r.looked = true
	seen := &dates{RoundTripper: http.DefaultTransport}
	public, err := client.New(client.Options{URL: server, APIKey: noKey, HTTPClient: &http.Client{
		Transport: seen,
		// As the client's own: a followed redirect would hide that the URL is not the gateway's.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}})
	if err != nil {
		r.unreached = true
		r.add(diagnosis.LevelFail, "gateway", err.Error(), "correct "+by)
		return
	}
	defer public.CloseIdleConnections()
	if !r.gatewayReady(ctx, public, server) {
		return
	}
	if u, err := url.Parse(server); err == nil && u.Scheme == "http" && !cli.IsLoopback(u.Hostname()) {
		r.add(diagnosis.LevelWarn, "gateway transport", "keys and payloads travel unencrypted to "+u.Host, "put TLS before the gateway, and use https://")
	}
	r.clocks = append(r.clocks, seen.clock()...)
	if key, err := keyOf(a, "FORGEQUEUE_API_KEY", named, named.APIKey, local.APIKey); err != nil {
		r.add(diagnosis.LevelFail, "API key", err.Error(), "name a file that can be read")
	} else {
		r.apiKey(ctx, server, key)
	}
	if operator, err := keyOf(a, "FORGEQUEUE_OPERATOR_KEY", named, named.OperatorKey, local.OperatorKey); err != nil {
		r.add(diagnosis.LevelFail, "operator key", err.Error(), "name a file that can be read")
	} else {
		r.operatorKey(ctx, server, operator)
	}
}

// keyOf is the key to look at: of a profile only its own, which may be none.
func keyOf(a *cli.App, variable string, named cli.Profile, ofProfile, ofLocal string) (string, error) {
	if named.APIKey != "" || named.OperatorKey != "" {
		return ofProfile, nil
	}
	key, err := a.Secret(variable)
	return cmp.Or(key, ofLocal), err
}

// answers reports whether a gateway answers there, in any state.
func answers(ctx context.Context, server string) bool {
	c, err := client.New(client.Options{URL: server, APIKey: noKey})
	if err != nil {
		return false
	}
	defer c.CloseIdleConnections()
	ready, _ := c.Ready(ctx) // one that starts or drains answers with an error, but it answers
	return ready.Status != ""
}

func (r *report) gatewayReady(ctx context.Context, public *client.Client, server string) (reached bool) {
	const check = "gateway"
	ready, err := public.Ready(ctx)
	var parts []string
	for _, name := range []string{"core", "redis"} {
		if state := ready.Checks[name]; state != "" {
			parts = append(parts, name+" "+state)
		}
	}
	detail := strings.TrimSpace(server + " " + ready.Status + ": " + strings.Join(parts, ", "))
	switch {
	case client.Status(err) == http.StatusServiceUnavailable && ready.Status != "":
		r.add(diagnosis.LevelFail, check, detail, "it starts or drains; if that lasts, look at core: FORGEQUEUE_CORE_URL, and its log")
	case err != nil:
		r.unreached = true
		r.add(diagnosis.LevelFail, check, err.Error(), "start the gateway (`forgequeue up` starts all), or correct FORGEQUEUE_URL")
		return false
	case ready.Status == "ok":
		r.add(diagnosis.LevelOK, check, detail, "")
	case ready.Checks["core"] != "ok":
		r.add(diagnosis.LevelFail, check, detail, "core is away: look at its log, and at FORGEQUEUE_CORE_URL and FORGEQUEUE_HOP_SECRET of both")
	default:
		r.add(diagnosis.LevelWarn, check, detail, "Redis is away: each gateway enforces the limits alone, and hints are slow")
	}
	return true
}

func (r *report) apiKey(ctx context.Context, server, key string) {
	const check = "API key"
	if key == "" {
		r.add(levelSkip, check, "FORGEQUEUE_API_KEY is not set", "set it to have it looked at")
		return
	}
	c, err := client.New(client.Options{URL: server, APIKey: key})
	if err != nil {
		r.add(diagnosis.LevelFail, check, err.Error(), "correct FORGEQUEUE_API_KEY")
		return
	}
	defer c.CloseIdleConnections()
	who, err := c.Whoami(ctx)
	if client.Status(err) == http.StatusUnauthorized {
		err = cli.UnknownKey("FORGEQUEUE_API_KEY", server, err)
		r.add(diagnosis.LevelFail, check, err.Error(), "have a new one made with `forgequeue key create`")
		return
	}
	if err != nil {
		r.add(diagnosis.LevelFail, check, err.Error(), "look at the gateway first")
		return
	}
	detail := fmt.Sprintf("%s of tenant %s may %s", who.KeyID, cli.OrElse(who.Tenant, "all (platform key)"), strings.Join(who.Scopes, ", "))
	if missing := slices.DeleteFunc(api.Scopes(), func(scope string) bool { return slices.Contains(who.Scopes, scope) }); len(missing) > 0 {
		detail += "; it may not " + strings.Join(missing, ", ")
	}
	r.add(diagnosis.LevelOK, check, detail, "")
}

func (r *report) operatorKey(ctx context.Context, server, key string) {
	const check = "operator key"
	if key == "" {
		r.add(levelSkip, check, "FORGEQUEUE_OPERATOR_KEY is not set", "only tenant, key and plan need it")
		return
	}
	c, err := client.New(client.Options{URL: server, APIKey: key})
	if err == nil {
		defer c.CloseIdleConnections()
		_, err = c.ListTenants(ctx, client.PageRequest{Size: 1})
	}
	switch {
	case cli.IsNotFound(err):
		r.add(diagnosis.LevelFail, check, "the gateway has no operator key, so nothing of /v1/admin is there", "start the gateway with FORGEQUEUE_OPERATOR_KEY")
	case err != nil:
		r.add(diagnosis.LevelFail, check, err.Error(), "set FORGEQUEUE_OPERATOR_KEY to the gateway's own")
	default:
		r.add(diagnosis.LevelOK, check, "it opens /v1/admin", "")
	}
}
