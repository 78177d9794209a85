// Package build has the version that a program was built from.
package build

import (
	"cmp"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
)

// Release is the version of the newest release, or of the one that is prepared: the one place of it. A test holds the
// packages, the chart, the documents and the changelog to it; .ci/release makes no other.
const Release = "0.1.0"

// Set by -ldflags -X where the build does not see the repository, as that of the
// images does not: see the Dockerfile.
var (
	version  string
	revision string
)

// Info is what a program was made of.
type Info struct {
	// Version is that of the release, such as 0.1.0; of a build from a clone 0.1.0-dev, with the beginning of the commit if
	// it is known: 0.1.0-dev+0123456789ab, and .dirty after it if the tree was not the commit's.
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
	module := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		module = info.Main.Version
		for _, setting := range info.Settings {
			switch setting.Key {
			case "vcs.revision":
				b.Revision = setting.Value
			case "vcs.modified":
				b.Modified = setting.Value == "true"
			}
		}
	}
	if revision != "" {
		var dirty bool
		b.Revision, dirty = strings.CutSuffix(revision, "-dirty") // as .ci/start gives it
		b.Modified = b.Modified || dirty
	}
	b.Version = b.version(cmp.Or(version, module))
	return b
}

// pseudo is the end of a version that Go makes of a commit without a tag.
var pseudo = regexp.MustCompile(`\d{14}-[0-9a-f]{12}(\+dirty)?$`)

// version is that of the release that the build has named; otherwise it says that it is none.
func (b Info) version(named string) string {
	if named != "" && named != "dev" && named != "(devel)" && !pseudo.MatchString(named) && !strings.HasSuffix(named, "+dirty") {
		return strings.TrimPrefix(named, "v")
	}
	made := Release + "-dev"
	if b.Revision != "" {
		made += "+" + b.Revision[:min(len(b.Revision), 12)]
		if b.Modified {
			made += ".dirty"
		}
	}
	return made
}

func (b Info) String() string {
	text := b.Version + ", revision " + cmp.Or(b.Revision, "not known")
	if b.Modified {
		text += " with changes"
	}
	return fmt.Sprintf("%s, %s, %s", text, b.Go, b.Platform)
}
