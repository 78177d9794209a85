package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/forgequeue/forgequeue/cmd/bench/internal/wire"
	"github.com/forgequeue/forgequeue/cmd/supervisor/child"
)

const (
	// stackStart is how long initdb, the services and their keys may take.
	stackStart = 2 * time.Minute
	// stackStop is how long PostgreSQL may take to write everything before it is killed.
	stackStop = time.Minute
)

// startStack runs `forgequeue up` in a folder of its own, as a child: services in
// this process would share its memory and its scheduler with the load. stop ends
// it and removes the folder.
func startStack(ctx context.Context, program string, errs io.Writer) (_ target, stop func(), err error) {
	dir, err := os.MkdirTemp("", "fq-bench-")
	if err != nil {
		return target{}, nil, err
	}
	remove := func() { _ = os.RemoveAll(dir) }
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // PostgreSQL's own user passes through to its folder
		remove()
		return target{}, nil, err
	}
	command := exec.CommandContext(context.WithoutCancel(ctx), program, "up", "--data-dir", dir, "--listen", "127.0.0.1:0", "--demo=false", "--json")
	// Commands that look for an `up` on this machine do not find this one.
	command.Env = append(ownStores(os.Environ()), "XDG_STATE_HOME="+dir)
	command.Stderr = errs
	out, err := command.StdoutPipe()
	if err != nil {
		remove()
		return target{}, nil, err
	}
	// Ctrl-C reaches this process only, which stops the stack last.
	stack, err := child.Start(command, syscall.SIGTERM)
	if err != nil {
		remove()
		return target{}, nil, err
	}
	stop = func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		select {
		case <-stack.Ended():
		case <-time.After(stackStop):
			_ = command.Process.Kill()
			<-stack.Ended()
		}
		remove()
	}
	t, err := readReady(ctx, out, stack.Ended())
	if err != nil {
		stop()
		return target{}, nil, fmt.Errorf("the stack of --up: %w", err)
	}
	return t, stop, nil
}

// ownStores removes the stores from an environment: the stack must not write to
// them.
func ownStores(environment []string) []string {
	return slices.DeleteFunc(environment, func(pair string) bool {
		return strings.HasPrefix(pair, "DATABASE_URL=") || strings.HasPrefix(pair, "REDIS_URL=")
	})
}

func readReady(ctx context.Context, out io.Reader, ended <-chan struct{}) (target, error) {
	lines := make(chan []byte, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadBytes('\n')
		lines <- line
	}()
	select {
	case <-ctx.Done():
		return target{}, context.Cause(ctx)
	case <-ended:
		return target{}, errors.New("it ended before it was ready")
	case <-time.After(stackStart):
		return target{}, fmt.Errorf("it is not ready after %v", stackStart)
	case line := <-lines:
		var ready struct {
			Gateway     string `json:"gateway"`
			APIKey      string `json:"api_key"`
			OperatorKey string `json:"operator_key"`
			DatabaseURL string `json:"database_url"`
		}
		if err := json.Unmarshal(line, &ready); err != nil || ready.Gateway == "" {
			return target{}, errors.New("it did not become ready")
		}
		return target{url: ready.Gateway, keys: wire.Keys{API: ready.APIKey, Operator: ready.OperatorKey}, databaseURL: ready.DatabaseURL}, nil
	}
}
