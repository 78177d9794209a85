// Package build has the version that a program was built from.
package build

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Set by -ldflags -X where the build does not see the repository, as that of the
// images does not: see the Dockerfile.
var (
	version  string
	revision string
)

// Info is what a program was made of.
type Info struct {
	Version string `json:"version"`
	// Revision is the commit; empty if the build does not know it, as with `go run`.
	Revision string `json:"revision"`
	// Modified says that the tree was not the commit's.
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// This is the running program.
func This() Info {
	b := Info{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = info.Main.Version
		for _, setting := range info.Settings {
			switch setting.Key {
			case "vcs.revision":
				b.Revision = setting.Value
			case "vcs.modified":
				b.Modified = setting.Value == "true"
			}
		}
	}
	b.Version, b.Revision = cmp.Or(version, b.Version), cmp.Or(revision, b.Revision)
	return b
}

func (b Info) String() string {
	text := cmp.Or(b.Version, "(unknown)") + ", revision " + cmp.Or(b.Revision, "not known")
	if b.Modified {
		text += " with changes"
	}
	return fmt.Sprintf("%s, %s, %s", text, b.Go, b.Platform)
}
