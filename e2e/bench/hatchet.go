package main

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// hatchet is Hatchet's programs and our program that loads it, built from a clone.
type hatchet struct {
	dir, loader, commit string
}

// The program that loads Hatchet is of two files.
var (
	//go:embed load.go
	loadSource []byte
	//go:embed testdata/hatchet/main.go
	hatchetSource []byte
)

// notACloneError is a folder that does not hold what is wanted.
type notACloneError struct{ why string }

func (e *notACloneError) Error() string { return e.why }

// hatchetPaths is as much of its source as its engine and its Go SDK need.
func hatchetPaths() []string {
	return []string{"go.mod", "go.sum", "api", "api-contracts", "cmd", "internal", "pkg", "sdks/go", "sql"}
}

// buildHatchet builds its engine and ours that loads it, in a folder of the user's cache that is of the clone's commit:
// the next time they are there.
func buildHatchet(ctx context.Context, clone string) (*hatchet, error) {
	git := func(args ...string) *exec.Cmd {
		return exec.CommandContext(ctx, "git", append([]string{"-c", "safe.directory=*", "-C", clone}, args...)...)
	}
	head, err := git("rev-parse", "--absolute-git-dir", "HEAD", "HEAD:cmd/hatchet-engine/main.go").Output()
	words := strings.Fields(string(head))
	if err != nil || len(words) != 3 {
		return nil, &notACloneError{fmt.Sprintf("%s is no clone of hatchet-dev/hatchet", clone)}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	_, _ = sum.Write(loadSource)
	_, _ = sum.Write(hatchetSource)
	h := &hatchet{dir: filepath.Join(cache, "forgequeue-peers", words[1]), commit: words[1]}
	h.loader = filepath.Join(h.dir, "load-"+hex.EncodeToString(sum.Sum(nil))[:12])
	source := filepath.Join(h.dir, "source")
	if _, err := os.Stat(filepath.Join(h.dir, "hatchet-admin")); err != nil {
		if err := os.MkdirAll(source, 0o755); err != nil {
			return nil, err
		}
		index := filepath.Join(h.dir, "index") // not the clone's
		defer func() { _ = os.Remove(index) }()
		checkout := exec.CommandContext(ctx, "git", append([]string{
			"-c", "safe.directory=*", "--git-dir", words[0], "--work-tree", source, "checkout", "HEAD", "--",
		}, hatchetPaths()...)...)
		checkout.Dir, checkout.Env = source, append(os.Environ(), "GIT_INDEX_FILE="+index)
		if out, err := checkout.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("the source of Hatchet: %w\n%s", err, out)
		}
		fmt.Fprintln(os.Stderr, "building Hatchet: that takes minutes, once")
		for _, name := range []string{"hatchet-engine", "hatchet-migrate", "hatchet-admin"} { // the last one says that all are there
			if err := h.build(ctx, source, name, filepath.Join(h.dir, name)); err != nil {
				return nil, err
			}
		}
	}
	if _, err := os.Stat(h.loader); err == nil {
		return h, nil
	}
	folder := filepath.Join(source, "cmd", "forgequeue-load")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{"load.go": loadSource, "main.go": hatchetSource} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return nil, err
		}
	}
	return h, h.build(ctx, source, "forgequeue-load", h.loader)
}

func (h *hatchet) build(ctx context.Context, source, name, into string) error {
	command := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w", "-o", into, "./cmd/"+name)
	command.Dir = source
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}
