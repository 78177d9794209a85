package supervisor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// NotFoundError is a program that was not found, with what each place had instead.
type NotFoundError struct {
	Wanted string // such as "PostgreSQL 15 or later"
	Looked []Place
}

// Place is a place that was searched.
type Place struct {
	Where string // a folder, a pattern of folders, "PATH"
	Found string // such as "version 13, too old" or "nothing"
}

func (e *NotFoundError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is not installed here; looked at:", e.Wanted)
	for _, place := range e.Looked {
		fmt.Fprintf(&b, "\n    %s: %s", place.Where, place.Found)
	}
	return b.String()
}

// findings collects the places, in the order in which they are looked at.
type findings []Place

// note records what a place had; no finds at all are "nothing".
func (f *findings) note(where string, finds []string) {
	found := "nothing"
	if len(finds) > 0 {
		found = strings.Join(finds, "; ")
	}
	*f = append(*f, Place{Where: where, Found: found})
}

// onPath lists every program of that name on a PATH, not only the first: the
// first may be too old.
func onPath(path, name string) []string {
	var hits []string
	for _, dir := range filepath.SplitList(path) {
		// An entry that is not absolute would run a program of the current
		// folder: os/exec refuses those too.
		if !filepath.IsAbs(dir) {
			continue
		}
		if file := filepath.Join(dir, name); executable(file) {
			hits = append(hits, file)
		}
	}
	return hits
}

func executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// output runs a program such as `postgres --version`.
func output(ctx context.Context, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = environment(os.Environ())
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}
