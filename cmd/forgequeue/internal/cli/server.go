package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/up"
	"github.com/forgequeue/forgequeue/shared/secret"
)

// defaultURL is the gateway of `forgequeue up` and of the Compose file.
const defaultURL = "http://127.0.0.1:8080"

// server is the URL to call and the key to send. If no key is set, it is the key of an `up` that runs on this
// machine, but only if FORGEQUEUE_URL is unset or names that server: a key is not sent to another one.
func (a *App) server(s *Screen, variable string, ofLocal func(up.Running) string) (server, key string, err error) {
	server = a.Getenv("FORGEQUEUE_URL")
	if key, err = a.Secret(variable); err != nil {
		return "", "", err
	}
	if err := CheckURL(server); err != nil {
		return "", "", Environment(err)
	}
	if key != "" {
		return cmp.Or(server, a.DefaultURL), key, nil
	}
	local, ok := a.Local()
	switch {
	case !ok || ofLocal(local) == "":
		return "", "", Environment(fmt.Errorf("%s is not set, and no `forgequeue up` of yours runs here on its usual data folder; "+
			"set it to a key, and FORGEQUEUE_URL to the server (%s if unset); `up` prints both as export lines", variable, a.DefaultURL))
	case server != "" && !SameServer(server, local.Gateway):
		// Without the URL's text: there may be a password in it.
		return "", "", Environment(fmt.Errorf("%s is not set; a `forgequeue up` of yours runs here at %s, but FORGEQUEUE_URL names another server, "+
			"so its key is not sent there; set %[1]s to a key of that server, or unset FORGEQUEUE_URL", variable, local.Gateway))
	}
	s.Note("%s is not set: using the key of the `forgequeue up` that runs here (%s)", variable, local.Data)
	return local.Gateway, ofLocal(local), nil
}

// Secret is a variable's value, or the content of the file that NAME_FILE names; empty if neither is set.
func (a *App) Secret(variable string) (string, error) {
	value, path := a.Getenv(variable), a.Getenv(variable+"_FILE")
	if value != "" || path == "" {
		return value, nil
	}
	text, err := secret.FromFile(path)
	if err != nil {
		return "", Environment(fmt.Errorf("%s_FILE: %w", variable, err))
	}
	return text.Reveal(), nil
}

// CheckURL refuses a FORGEQUEUE_URL that is no URL of a server, or includes the API's path.
func CheckURL(server string) error {
	if parsed, err := url.Parse(server); server != "" && (err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https") {
		// Without the URL's text: there may be a password in it.
		return errors.New("FORGEQUEUE_URL must be the gateway's address with its scheme, http:// or https://, such as " + defaultURL)
	}
	if !strings.HasSuffix(strings.TrimRight(server, "/"), "/v1") {
		return nil
	}
	return errors.New("FORGEQUEUE_URL must not end in /v1, which each call adds by itself: give the gateway's address, such as " + defaultURL)
}

// SameServer reports whether two URLs name the same server of this machine.
func SameServer(one, other string) bool {
	a, errA := url.Parse(strings.TrimRight(one, "/"))
	b, errB := url.Parse(strings.TrimRight(other, "/"))
	if errA != nil || errB != nil {
		return false
	}
	return a.Scheme == b.Scheme && a.Path == b.Path && a.Port() == b.Port() && IsLoopback(a.Hostname()) && IsLoopback(b.Hostname())
}

// IsLoopback reports whether a host is this machine: localhost, a loopback address, or 0.0.0.0 and ::, where a
// server of this machine may listen.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}
