package commands

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/plaintext"
	"github.com/forgequeue/forgequeue/shared/server/secret"
)

func newProfile(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:     "profile",
		Aliases: []string{"profiles"},
		Short:   "Servers and their keys, by name",
		Long: `A profile is a server's URL and the keys for it. Its keys are sent to that server only.

It is chosen by --profile, by FORGEQUEUE_PROFILE, or as the current one (profile use). A key in the environment goes
before a profile that --profile does not name, and a profile before a ` + "`forgequeue up`" + ` that runs on this machine.
Profiles are kept in forgequeue/profiles.json in your settings folder, and only you can read the file.`,
	}
	list := newProfileList(a)
	command.Args, command.RunE = cobra.NoArgs, list.RunE // `profile` alone is the list
	command.AddCommand(newProfileAdd(a), newProfileUse(a), list, newProfileDelete(a))
	return command
}

var profileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func newProfileAdd(a *cli.App) *cobra.Command {
	var p cli.Profile
	var keyFile, operatorFile string
	command := &cobra.Command{
		Use:   "add NAME --url URL",
		Short: "Add a profile; the key is asked for, or read from standard input or a file",
		Example: `  forgequeue profile add staging --url https://queue.staging.example.com
  forgequeue profile add prod --url https://queue.example.com --key-file ~/prod.key --operator-key-file ~/prod.operator`,
		Args: cli.One(),
	}
	flags := command.Flags()
	flags.StringVar(&p.URL, "url", "", "the gateway's URL, without /v1")
	flags.StringVar(&keyFile, "key-file", "", "a file with the API key; - or none reads it from standard input")
	flags.StringVar(&operatorFile, "operator-key-file", "", "a file with the operator key")
	command.RunE = func(command *cobra.Command, args []string) error {
		s, name := a.Screen(command), args[0]
		switch err := cli.CheckURL("--url", p.URL); {
		case !profileName.MatchString(name):
			return cli.Usage("%q cannot be a profile's name: 1 to 64 letters, digits, dots, dashes and underscores, a letter or digit first", name)
		case p.URL == "":
			return cli.Usage("--url is missing: give the gateway's URL")
		case err != nil:
			return cli.Usage("%w", err)
		}
		all, err := a.ReadProfiles()
		if err != nil {
			return err
		}
		if _, ok := all.All[name]; ok {
			return cli.Usage("there is a profile %s already: forgequeue profile delete %[1]s", name)
		}
		if operatorFile != "" {
			if p.OperatorKey, err = keyIn(operatorFile); err != nil {
				return err
			}
		}
		if keyFile != "" && keyFile != "-" {
			p.APIKey, err = keyIn(keyFile)
		} else if operatorFile == "" || keyFile == "-" {
			p.APIKey, err = askKey(s)
		}
		if err != nil {
			return err
		}
		all.All[name] = p
		if all.Current == "" {
			all.Current = name
		}
		if err := a.WriteProfiles(all); err != nil {
			return err
		}
		if all.Current == name {
			s.Note("%s is the current profile", name)
			return nil
		}
		s.Note("%s is added; forgequeue profile use %[1]s makes it the current one", name)
		return nil
	}
	return command
}

func keyIn(file string) (string, error) {
	key, err := secret.FromFile(file)
	if err != nil {
		return "", cli.Environment(err)
	}
	return key.Reveal(), nil
}

// askKey reads the API key from standard input, on a terminal without showing it.
func askKey(s *cli.Screen) (string, error) {
	var text string
	if file, ok := s.In.(*os.File); ok && s.Interactive() {
		fmt.Fprint(s.Err, "API key: ")
		raw, err := term.ReadPassword(int(file.Fd()))
		fmt.Fprintln(s.Err)
		if err != nil {
			return "", err
		}
		text = string(raw)
	} else {
		const most = 4096
		line, err := bufio.NewReader(io.LimitReader(s.In, most)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		text = line
	}
	decoded, err := plaintext.Decode([]byte(text))
	if err != nil {
		return "", cli.Usage("standard input %w", err)
	}
	if text = strings.TrimSpace(string(decoded)); text == "" {
		return "", cli.Usage("standard input has no API key: write it there, or give --key-file")
	}
	return text, nil
}

func newProfileUse(a *cli.App) *cobra.Command {
	return onProfile(a, "use NAME", "Make a profile the current one", func(all *cli.Profiles, name string) { all.Current = name })
}

func newProfileDelete(a *cli.App) *cobra.Command {
	return onProfile(a, "delete NAME", "Delete a profile and its keys; the keys stay valid", func(all *cli.Profiles, name string) {
		delete(all.All, name)
		if all.Current == name {
			all.Current = ""
		}
	})
}

// onProfile is a command that changes the profiles for one of them.
func onProfile(a *cli.App, use, short string, change func(all *cli.Profiles, name string)) *cobra.Command {
	names := func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		all, _ := a.ReadProfiles()
		return all.Names(), cobra.ShellCompDirectiveNoFileComp
	}
	return &cobra.Command{
		Use: use, Short: short, Args: cli.One(), ValidArgsFunction: names,
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := a.ReadProfiles()
			if err != nil {
				return err
			}
			if _, ok := all.All[args[0]]; !ok {
				return cli.Usage("there is no profile %q; there are: %s", args[0], cli.OrNone(strings.Join(all.Names(), ", ")))
			}
			change(&all, args[0])
			return a.WriteProfiles(all)
		},
	}
}

// shownProfile is a profile without its secrets.
type shownProfile struct {
	Name        string `json:"name"`
	URL         string `json:"url"`
	APIKey      string `json:"api_key"`
	OperatorKey bool   `json:"operator_key"`
	Current     bool   `json:"current"`
}

func newProfileList(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List profiles, without the secrets of their keys",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			all, err := a.ReadProfiles()
			if err != nil {
				return err
			}
			shown := api.Page[shownProfile]{Items: []shownProfile{}}
			for _, name := range all.Names() {
				p := all.All[name]
				shown.Items = append(shown.Items, shownProfile{name, p.URL, withoutSecret(p.APIKey), p.OperatorKey != "", name == all.Current})
			}
			return a.Screen(command).Show(shown, func(t *cli.Table) {
				t.Head("NAME", "CURRENT", "URL", "API KEY", "OPERATOR KEY")
				for _, p := range shown.Items {
					t.Row(p.Name, yes(p.Current), p.URL, p.APIKey, yes(p.OperatorKey))
				}
			})
		},
	}
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return ""
}

// withoutSecret is a key up to its id: fq_live_ID_…
func withoutSecret(key string) string {
	const parts = 4
	split := strings.SplitN(key, "_", parts)
	if len(split) < parts {
		return map[bool]string{true: "…"}[key != ""]
	}
	return strings.Join(split[:parts-1], "_") + "_…"
}
