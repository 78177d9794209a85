package build

import (
	"strings"
	"testing"
)

// A release says its version and nothing else; what is none says of which it is the next, and its commit if it knows it.
func TestVersionSaysWhetherItIsARelease(t *testing.T) {
	t.Parallel()
	const commit = "0123456789abcdef0123456789abcdef01234567"
	for _, c := range []struct {
		named string
		build Info
		want  string
	}{
		{"v0.1.0", Info{}, "0.1.0"},                                                       // go install …@v0.1.0
		{"0.1.0", Info{Revision: commit}, "0.1.0"},                                        // an archive, an image
		{"v1.2.3-rc.1", Info{}, "1.2.3-rc.1"},                                             //
		{"edge", Info{Revision: commit}, "edge"},                                          // an image of the main branch
		{"", Info{}, Release + "-dev"},                                                    // a test, go run
		{"dev", Info{}, Release + "-dev"},                                                 // docker build without arguments
		{"(devel)", Info{Revision: commit}, Release + "-dev+0123456789ab"},                // make run
		{"", Info{Revision: commit, Modified: true}, Release + "-dev+0123456789ab.dirty"}, // with changes
		{"v0.0.0-20261129100000-0123456789ab", Info{}, Release + "-dev"},                  // go install …@main
		{"v0.1.1-0.20261129100000-0123456789ab+dirty", Info{Revision: commit}, Release + "-dev+0123456789ab"},
		{"v0.1.0+dirty", Info{Revision: commit, Modified: true}, Release + "-dev+0123456789ab.dirty"},
	} {
		if got := c.build.version(c.named); got != c.want {
			t.Errorf("named %q, %+v: %s, want %s", c.named, c.build, got, c.want)
		}
	}
}

func TestThisIsNoRelease(t *testing.T) {
	t.Parallel()
	if this := This(); !strings.HasPrefix(this.Version, Release+"-dev") || this.Go == "" {
		t.Errorf("%+v", this)
	}
}
