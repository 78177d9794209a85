// Command forgequeue-bench puts load on a running ForgeQueue: see package bench.
package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/bench"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/interrupt"
	"github.com/forgequeue/forgequeue/shared/server/build"
)

func main() {
	ctx, stop := interrupt.Context(context.Background())
	code := cli.Execute(ctx, newRoot(cli.Options{}, forgequeue))
	stop()
	os.Exit(code)
}

// newRoot makes the command. program is the path of forgequeue, for --up.
func newRoot(options cli.Options, program func() (string, error)) *cobra.Command {
	options = options.WithDefaults()
	root := bench.New(bench.Options{
		Getenv: options.Getenv,
		Local: func() (bench.Server, bool) {
			running, ok := cli.New(options).LocalAt("")
			return bench.Server{Gateway: running.Gateway, APIKey: running.APIKey, OperatorKey: running.OperatorKey, Data: running.Data}, ok
		},
		Program:     program,
		Environment: cli.Environment,
	})
	root.Version = "forgequeue-bench " + build.This().String()
	root.SetVersionTemplate("{{.Version}}\n")
	return root
}

// forgequeue finds the program beside this one, else on the PATH.
func forgequeue() (string, error) {
	name := "forgequeue"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if own, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(own), name); isFile(beside) {
			return beside, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", errors.New("--up needs the program forgequeue in the same folder or on the PATH: make build makes both")
	}
	return path, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
