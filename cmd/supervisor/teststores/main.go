// Command teststores runs a command beside a PostgreSQL and a Redis, whose URLs it finds in DATABASE_URL and
// REDIS_URL: one server of each for a whole run of tests.
//
//	teststores go test ./...
//
// It ends with the command's exit code, and with 1 where a server cannot be started or stopped.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
)

// Guards against a hang: initdb and a last checkpoint are slow on a slow machine.
const startTimeout, stopTimeout = 5 * time.Minute, 2 * time.Minute

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: teststores COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "teststores:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(command []string) (code int, err error) {
	// The command gets a terminal's Ctrl-C too, and ends by it.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	servers, err := storetest.Start(ctx)
	if err != nil {
		return 1, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		err = errors.Join(err, servers.Stop(ctx))
	}()
	child := exec.CommandContext(context.Background(), command[0], command[1:]...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.Env = append(os.Environ(), servers.Environ()...)
	if err := child.Start(); err != nil {
		return 1, err
	}
	go func() {
		for s := range signals {
			_ = child.Process.Signal(s)
		}
	}()
	if err := child.Wait(); child.ProcessState == nil {
		return 1, err
	}
	return child.ProcessState.ExitCode(), nil
}
