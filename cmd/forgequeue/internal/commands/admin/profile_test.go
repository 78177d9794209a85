package admin_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/localup"
	"github.com/forgequeue/forgequeue/shared/api"
)

// bare is a fixture without keys in the environment.
func bare(t *testing.T) *commandtest.Fixture {
	t.Helper()
	return commandtest.New(t).With("FORGEQUEUE_URL", "").With("FORGEQUEUE_API_KEY", "").With("FORGEQUEUE_OPERATOR_KEY", "")
}

// add makes a profile whose key comes by standard input.
func add(f *commandtest.Fixture, key string, args ...string) commandtest.Result {
	f.Helper()
	r := f.RunWith(f.Context(), key+"\n", append([]string{"profile", "add"}, args...)...)
	if r.Code != 0 {
		f.Fatalf("%v: %+v", args, r)
	}
	return r
}

func TestProfiles(t *testing.T) {
	f := bare(t)
	operator := filepath.Join(t.TempDir(), "operator.key")
	if err := os.WriteFile(operator, []byte(f.Ready.OperatorKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.Want(3, []string{"FORGEQUEUE_API_KEY is not set"}, "whoami")
	add(f, f.Ready.APIKey, "here", "--url", f.Ready.Gateway+"/")
	add(f, "", "desk", "--url", f.Ready.Gateway, "--operator-key-file", operator)
	add(f, "fq_live_abcdefghijkl_secret", "far", "--url", "http://127.0.0.1:1")

	who := commandtest.Decode[api.Whoami](f, f.Must("whoami", "-o", "json"))
	if who.Tenant == nil {
		t.Errorf("by the current profile: %+v", who)
	}
	f.Want(0, []string{"default"}, "tenant", "list", "--profile", "desk")
	f.With("FORGEQUEUE_PROFILE", "desk").Want(0, []string{"default"}, "tenant", "list")
	f.Want(3, []string{"the profile desk has no API key"}, "whoami", "--profile", "desk")
	f.Want(3, []string{"the profile far says where it is", "http://127.0.0.1:1"}, "whoami", "--profile", "far")
	f.Must("profile", "use", "far")
	f.Want(3, []string{"the profile far says where it is"}, "whoami")

	list := f.Must("profile", "list") + f.Must("profile", "list", "-o", "json")
	for _, secret := range []string{"secret", f.Ready.APIKey, f.Ready.OperatorKey} {
		if strings.Contains(list, secret) {
			t.Errorf("the list shows a key: %s", list)
		}
	}
	if !strings.Contains(list, "fq_live_abcdefghijkl_…") {
		t.Errorf("the list: %s", list)
	}
	if got := f.Must("profile", "list", "-o", "name"); got != "desk\nfar\nhere\n" {
		t.Errorf("names: %q", got)
	}
	f.Must("profile", "delete", "far")
	f.Want(3, []string{"FORGEQUEUE_API_KEY is not set"}, "whoami") // none is current
	f.Must("profile", "use", "here")
	f.Must("whoami")

	for want, args := range map[string][]string{
		"there is a profile here already":        {"profile", "add", "here", "--url", f.Ready.Gateway},
		"--url is missing":                       {"profile", "add", "new"},
		"--url must be the gateway's address":    {"profile", "add", "new", "--url", "127.0.0.1:8080"},
		"cannot be a profile's name":             {"profile", "add", "../new", "--url", f.Ready.Gateway},
		"standard input has no API key":          {"profile", "add", "new", "--url", f.Ready.Gateway},
		`no profile "gone"; there are: desk, he`: {"profile", "use", "gone"},
		`no profile "lost"; there are: desk, he`: {"whoami", "--profile", "lost"},
		`no profile "none"; there are: desk, he`: {"profile", "delete", "none"},
	} {
		f.Want(2, []string{want}, args...)
	}
}

// The file holds keys: nobody else can read it, and one that others can read is not used.
func TestProfilesAreTheUsersOwn(t *testing.T) {
	f := bare(t)
	add(f, f.Ready.APIKey, "here", "--url", f.Ready.Gateway)
	path := filepath.Join(f.Config, "forgequeue", "profiles.json")
	for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	f.Want(3, []string{"chmod 600 " + path}, "whoami")
	f.With("FORGEQUEUE_URL", f.Ready.Gateway).With("FORGEQUEUE_API_KEY", f.Ready.APIKey).Want(0, nil, "whoami")
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"{", "{}", "[]", ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := f.Want(3, []string{path, "is not a file of profiles"}, "whoami"); strings.Contains(r.Err, "%!") {
			t.Errorf("%q: %s", text, r.Err)
		}
	}
}

// Whatever chooses server and key: a key goes only to the server that it belongs to. The other server is a trap: it
// notes each key that it gets.
func TestKeysGoToTheirServerOnly(t *testing.T) {
	trap := newTrap(t)
	f := bare(t)
	here := f.Ready.Gateway
	f.Local = func() []localup.Running {
		return []localup.Running{{Gateway: here, APIKey: f.Ready.APIKey, OperatorKey: f.Ready.OperatorKey, Data: "/data"}}
	}
	add(f, f.Ready.APIKey, "here", "--url", here)
	whoami := func(f *commandtest.Fixture, args ...string) commandtest.Result {
		return f.Run(append([]string{"whoami"}, args...)...)
	}
	for name, r := range map[string]commandtest.Result{
		"the profile's, by --url":                    whoami(f, "--profile", "here", "--url", trap.URL),
		"the profile's, by FORGEQUEUE_URL":           whoami(f.With("FORGEQUEUE_PROFILE", "here").With("FORGEQUEUE_URL", trap.URL)),
		"the current profile's, by FORGEQUEUE_URL":   whoami(f.With("FORGEQUEUE_URL", trap.URL)),
		"the current profile's, by --url":            whoami(f, "--url", trap.URL),
		"the environment's, by --url":                whoami(f.With("FORGEQUEUE_URL", here).With("FORGEQUEUE_API_KEY", f.Ready.APIKey), "--url", trap.URL),
		"the environment's alone, by --url":          whoami(f.With("FORGEQUEUE_API_KEY", f.Ready.APIKey), "--url", trap.URL),
		"the environment's alone, by a webhook's":    f.With("FORGEQUEUE_API_KEY", f.Ready.APIKey).Run("webhook", "set", "done", "--url", trap.URL+"/hook"),
		"the environment's alone, by doctor's --url": f.With("FORGEQUEUE_API_KEY", f.Ready.APIKey).Run("doctor", "--url", trap.URL),
		"an up's operator key, by --url":             f.Run("tenant", "list", "--url", trap.URL),
		"an up's operator key, by a current profile": f.Run("tenant", "list"),
	} {
		if r.Code == 0 || !strings.Contains(r.Out+r.Err, "not sent there") && !strings.Contains(r.Err, "has no operator key") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	f.With("FORGEQUEUE_API_KEY", f.Ready.APIKey).Want(2, []string{"is not sent there", "--endpoint URL"}, "webhook", "set", "done", "--url", trap.URL+"/hook")
	if keys := trap.keys(); len(keys) > 0 {
		t.Errorf("the other server got %q", keys)
	}
	for name, r := range map[string]commandtest.Result{
		"--profile goes before the environment's key":         whoami(f.With("FORGEQUEUE_URL", trap.URL).With("FORGEQUEUE_API_KEY", "fq_live_of_another"), "--profile", "here"),
		"the environment's key goes before a current profile": whoami(f.With("FORGEQUEUE_URL", here).With("FORGEQUEUE_API_KEY", f.Ready.APIKey)),
		"the profile's own server by another of its names":    whoami(f, "--url", strings.Replace(here, "127.0.0.1", "localhost", 1)),
		"the same server, with a slash, by FORGEQUEUE_URL":    whoami(f.With("FORGEQUEUE_URL", here+"/")),
	} {
		if r.Code != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if keys := trap.keys(); len(keys) > 0 {
		t.Errorf("the other server got %q", keys)
	}
}

// trap is a server that notes the keys that it is sent.
type trap struct {
	*httptest.Server
	mu  sync.Mutex
	got []string
}

func newTrap(t *testing.T) *trap {
	t.Helper()
	made := &trap{}
	made.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		made.mu.Lock()
		defer made.mu.Unlock()
		made.got = append(made.got, r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(made.Close)
	return made
}

func (t *trap) keys() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.got)
}
