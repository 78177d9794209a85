package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build is what this program was made of.
type build struct {
	Version string `json:"version"`
	// Revision is the commit; empty where the build was not told, as by `go run`.
	Revision string `json:"revision"`
	// Modified: there was more than the commit.
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = info.Main.Version
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Revision = setting.Value
		case "vcs.modified":
			b.Modified = setting.Value == "true"
		}
	}
	return b
}

func (b build) String() string {
	text := cmp.Or(b.Version, "(unknown)") + ", revision " + cmp.Or(b.Revision, "not known")
	if b.Modified {
		text += " with changes"
	}
	return fmt.Sprintf("%s, %s, %s", text, b.Go, b.Platform)
}

// Version tells which build this is, in a line.
func Version() string { return "forgequeue " + thisBuild().String() }

func (a *App) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which build this is",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			s := a.screen(command)
			if s.json {
				return s.writeJSON(thisBuild(), "  ")
			}
			_, err := fmt.Fprintln(s.out, Version())
			return err
		},
	}
}
