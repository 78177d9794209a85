package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/localup"
	"github.com/forgequeue/forgequeue/shared/server/secret"
)

// defaultURL is the gateway of `forgequeue up` and of the Compose file.
const defaultURL = "http://127.0.0.1:8080"

// keyKind is one of the two keys that commands send.
type keyKind struct {
	// what is its name in a sentence, variable the one in the environment.
	what, variable string
	ofLocal        func(localup.Running) string
	ofProfile      func(Profile) string
}

// target is the server that a command calls and the key that it sends there, with what each came from.
type target struct{ url, urlFrom, key, keyFrom string }

// server is the server to call and the key to send. What chooses them is, in this order: the flags, the environment's
// variables, a profile, an `up` that runs on this machine. A key is sent only to the server that it belongs to: that
// of a profile to the profile's, that of an `up` to that one, and that of the environment to FORGEQUEUE_URL, or to the
// default server if that is unset: --url alone does not send it elsewhere.
func (a *App) server(s *Screen, kind keyKind) (target, error) {
	given := a.Getenv("FORGEQUEUE_URL")
	key, err := a.Secret(kind.variable)
	if err != nil {
		return target{}, err
	}
	if err := CheckURL("FORGEQUEUE_URL", given); err != nil {
		return target{}, Environment(err)
	}
	if err := CheckURL("--url", s.url); err != nil {
		return target{}, Usage("%w", err)
	}
	if key != "" && s.profile == "" {
		if home := cmp.Or(given, a.DefaultURL); s.url != "" && !SameServer(s.url, home) {
			return target{}, Usage("--url names another server than %s, to which the key in %s belongs, so it is not sent there; "+
				"set FORGEQUEUE_URL to the server of that key, or use --profile", homeName(given, home), kind.variable)
		}
		return target{cmp.Or(s.url, given, a.DefaultURL), urlName(s), key, kind.variable}, nil
	}
	wanted := s.url
	if s.profile == "" { // which stands for both
		wanted = cmp.Or(s.url, given)
	}
	profile, name, by, err := a.chosen(s)
	switch {
	case err != nil:
		return target{}, err
	case name == "":
	case wanted != "" && !SameServer(wanted, profile.URL):
		if by != currentProfile {
			return target{}, otherServer(s, by, name)
		}
	case kind.ofProfile(profile) == "":
		return target{}, Environment(fmt.Errorf("the profile %s has no %s: delete it and add it again with one, or set %s", name, kind.what, kind.variable))
	default:
		return target{profile.URL, "the profile " + name, kind.ofProfile(profile), "the " + kind.what + " of the profile " + name}, nil
	}
	return a.localServer(s, kind, wanted)
}

// homeName names the server that the environment's keys belong to.
func homeName(given, home string) string {
	if given != "" {
		return "FORGEQUEUE_URL" // without the URL's text: there may be a password in it
	}
	return home + " (FORGEQUEUE_URL is unset)"
}

func urlName(s *Screen) string {
	if s.url != "" {
		return "--url"
	}
	return "FORGEQUEUE_URL"
}

// localServer is an `up` that runs on this machine, but only if wanted is empty or names it.
func (a *App) localServer(s *Screen, kind keyKind, wanted string) (target, error) {
	all := a.Local()
	local, ok := pick(all, wanted)
	switch {
	case len(all) == 0, ok && kind.ofLocal(local) == "":
		return target{}, Environment(fmt.Errorf("%s is not set, and no `forgequeue up` started by your user runs here; "+
			"set it to a key, and FORGEQUEUE_URL to the server (%s if unset); `up` prints both as export lines", kind.variable, a.DefaultURL))
	case !ok && wanted == "":
		return target{}, Environment(fmt.Errorf("%s is not set, and several `forgequeue up` started by your user run here: %s; choose one with --url", kind.variable, gateways(all)))
	case !ok:
		// Without the URL's text: there may be a password in it.
		return target{}, Environment(fmt.Errorf("%s is not set; a `forgequeue up` started by your user runs here at %s, but %s names another server, "+
			"so its key is not sent there; set %[1]s to a key of that server, or unset FORGEQUEUE_URL", kind.variable, gateways(all), urlName(s)))
	}
	s.Note("%s is not set: using the key of the `forgequeue up` that runs here (%s)", kind.variable, local.Data)
	return target{local.Gateway, "the `up` that runs here", kind.ofLocal(local), kind.variable}, nil
}

// LocalAt is the `up` of this machine with a URL, or if that is empty the only one.
func (a *App) LocalAt(url string) (localup.Running, bool) { return pick(a.Local(), url) }

// pick is the `up` that wanted names, or if that is empty the only one.
func pick(all []localup.Running, wanted string) (localup.Running, bool) {
	if wanted == "" && len(all) == 1 {
		return all[0], true
	}
	for _, one := range all {
		if wanted != "" && SameServer(wanted, one.Gateway) {
			return one, true
		}
	}
	return localup.Running{}, false
}

func gateways(all []localup.Running) string {
	var texts []string
	for _, one := range all {
		texts = append(texts, fmt.Sprintf("%s (%s)", one.Gateway, one.Data))
	}
	return strings.Join(texts, ", ")
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

// CheckURL refuses a URL that is not that of a server, or includes the API's path. name is where it was given. An empty
// one is fine.
func CheckURL(name, server string) error {
	if parsed, err := url.Parse(server); server != "" && (err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https") {
		// Without the URL's text: there may be a password in it.
		return errors.New(name + " must be the gateway's address with its scheme, http:// or https://, such as " + defaultURL)
	}
	if !strings.HasSuffix(strings.TrimRight(server, "/"), "/v1") {
		return nil
	}
	return errors.New(name + " must not end in /v1, which each call adds: give the gateway's address, such as " + defaultURL)
}

// SameServer reports whether two URLs name the same server. Of a server of this machine, the host may differ.
func SameServer(one, other string) bool {
	a, errA := url.Parse(strings.TrimRight(one, "/"))
	b, errB := url.Parse(strings.TrimRight(other, "/"))
	if errA != nil || errB != nil || a.Scheme != b.Scheme || a.Path != b.Path || portOf(a) != portOf(b) {
		return false
	}
	return strings.EqualFold(a.Hostname(), b.Hostname()) || IsLoopback(a.Hostname()) && IsLoopback(b.Hostname())
}

func portOf(u *url.URL) string {
	return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
}

// IsLoopback reports whether a host is this machine: localhost, a loopback address, or 0.0.0.0 and ::, where a
// server of this machine may listen.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}
