package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/forgequeue/forgequeue/cmd/supervisor/internal/scratch"
)

// maxSocketPath is the longest path of a Unix socket, in bytes: 107 on Linux,
// 103 on macOS and the BSDs. The smaller one serves all.
const maxSocketPath = 103

// fits reports whether clients can address a socket of that name in dir. For those
// of PostgreSQL, a comma ends the host.
func fits(dir, name string) bool {
	return len(filepath.Join(dir, name)) <= maxSocketPath && !strings.Contains(dir, ",")
}

// socketFolder returns a private folder where a socket of that name fits: dir,
// if it does there; or else a new one with a short path, which prepare gets
// ready and remove removes.
func socketFolder(dir, name string, prepare func(folder string) error) (path string, remove func(), err error) {
	if fits(dir, name) {
		return dir, func() {}, nil
	}
	var problems []error
	for _, parent := range []string{os.TempDir(), "/tmp"} {
		folder, err := scratch.Make(parent, "forgequeue-sock-")
		if err != nil {
			problems = append(problems, err)
			continue
		}
		remove := func() { _ = folder.Remove() }
		if err = prepare(folder.Path); err == nil && !fits(folder.Path, name) {
			err = fmt.Errorf("%s is no path for a socket either", folder.Path)
		}
		if err == nil {
			return folder.Path, remove, nil
		}
		problems = append(problems, err)
		remove()
	}
	return "", nil, fmt.Errorf("%s cannot hold a Unix socket (too long a path, or a comma in it), and no other folder serves: %w",
		dir, errors.Join(problems...))
}
