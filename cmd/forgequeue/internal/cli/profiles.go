package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/shared/plaintext"
)

// Profile is a server and the keys to send to it, and to no other.
type Profile struct {
	URL         string `json:"url"`
	APIKey      string `json:"api_key,omitempty"`
	OperatorKey string `json:"operator_key,omitempty"`
}

// Profiles are the profiles of a user, by name.
type Profiles struct {
	// Current is the name of the one that is used if none is chosen; empty for none.
	Current string             `json:"current,omitempty"`
	All     map[string]Profile `json:"profiles"`
}

// Names are the profiles' names, in order.
func (p Profiles) Names() []string { return slices.Sorted(maps.Keys(p.All)) }

func (a *App) profilesFile() (string, error) {
	dir, err := a.ConfigDir()
	if err != nil {
		return "", Environment(fmt.Errorf("where to keep profiles is not clear: %w", err))
	}
	return filepath.Join(dir, "forgequeue", "profiles.json"), nil
}

// ReadProfiles reads the user's profiles; none if there is no file. It refuses a file that other users can read.
func (a *App) ReadProfiles() (Profiles, error) {
	none := Profiles{All: map[string]Profile{}}
	path, err := a.profilesFile()
	if err != nil {
		return none, err
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, Environment(err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return none, Environment(err)
	}
	// Windows has no such bits: there the folder's access list keeps other users out.
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return none, Environment(fmt.Errorf("%s contains keys, and other users can read it: run chmod 600 %[1]s", path))
	}
	all := none
	all.All = nil
	text, err := plaintext.Reader(file)
	if err == nil {
		err = json.NewDecoder(text).Decode(&all)
	}
	if err == nil && all.All == nil {
		err = errors.New(`it has no "profiles"`)
	}
	if err != nil {
		return none, Environment(fmt.Errorf("%s is not a file of profiles (%w): correct it, or delete it and add the profiles again", path, err))
	}
	return all, nil
}

// WriteProfiles replaces the user's profiles atomically, in a file that only the user can read.
func (a *App) WriteProfiles(p Profiles) error {
	path, err := a.profilesFile()
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return Environment(err)
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), "profiles.*") // mode 0600
	if err != nil {
		return Environment(err)
	}
	_, err = temporary.Write(append(text, '\n'))
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temporary.Name())
		return Environment(err)
	}
	return nil
}

// ServerFlags adds --profile and --url to a command that calls a server, and to its subcommands.
func (a *App) ServerFlags(command *cobra.Command) {
	flags := command.PersistentFlags()
	flags.String("profile", "", "use this profile's server and key, see forgequeue profile")
	flags.String("url", "", "the gateway's URL, instead of FORGEQUEUE_URL")
	// It fails only for a flag that is not there.
	_ = command.RegisterFlagCompletionFunc("profile", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		all, _ := a.ReadProfiles()
		return all.Names(), cobra.ShellCompDirectiveNoFileComp
	})
}

// Named is the server that commands call, as far as the flags, the environment or a profile name it: with the profile's
// keys, and with what names it; the zero value if nothing does. The order is that of server.
func (a *App) Named(s *Screen) (server Profile, by string, err error) {
	given := cmp.Or(s.url, a.Getenv("FORGEQUEUE_URL"))
	if s.profile == "" && cmp.Or(a.Getenv("FORGEQUEUE_API_KEY"), a.Getenv("FORGEQUEUE_API_KEY_FILE")) != "" {
		return Profile{URL: given}, urlName(s), nil
	}
	wanted := s.url
	if s.profile == "" {
		wanted = given
	}
	profile, name, by, err := a.chosen(s)
	switch {
	case err != nil:
		return Profile{}, by, err
	case name == "":
		return Profile{URL: given}, urlName(s), nil
	case wanted == "" || SameServer(wanted, profile.URL):
		return profile, "the profile " + name, nil
	case by == currentProfile:
		return Profile{URL: given}, urlName(s), nil
	}
	return Profile{}, by, otherServer(s, by, name)
}

func otherServer(s *Screen, by, name string) error {
	return Usage("%s: the profile %s is for a different server than %s names, so its key is not sent there", by, name, urlName(s))
}

// currentProfile is what chose a profile that nobody asked for.
const currentProfile = "the current profile"

// chosen is the profile that is asked for: by the flag, by FORGEQUEUE_PROFILE, or as the current one. name is ""
// for none; by is what chose it.
func (a *App) chosen(s *Screen) (p Profile, name, by string, err error) {
	all, err := a.ReadProfiles()
	switch {
	case s.profile != "":
		name, by = s.profile, "--profile"
	case a.Getenv("FORGEQUEUE_PROFILE") != "":
		name, by = a.Getenv("FORGEQUEUE_PROFILE"), "FORGEQUEUE_PROFILE"
	case err != nil: // no profile was asked for
		return Profile{}, "", "", err
	case all.Current == "":
		return Profile{}, "", "", nil
	default:
		name, by = all.Current, currentProfile
	}
	if err != nil {
		return Profile{}, "", "", err
	}
	p, ok := all.All[name]
	if !ok {
		return Profile{}, "", "", Usage("%s: there is no profile %q; there are: %s", by, name, OrNone(strings.Join(all.Names(), ", ")))
	}
	return p, name, by, nil
}

// OrNone is the text, or "none".
func OrNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
