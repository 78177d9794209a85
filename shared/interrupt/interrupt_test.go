package interrupt_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/interrupt"
)

// childEnv makes this test binary a program that stops at the first signal, and never
// comes to an end.
const childEnv = "FORGEQUEUE_INTERRUPT_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		ctx, _ := interrupt.Context(context.Background())
		fmt.Println("runs")
		<-ctx.Done()
		fmt.Println("stops:", context.Cause(ctx))
		select {}
	}
	os.Exit(m.Run())
}

// However quickly the second signal follows the stop.
func TestTheSecondSignalEndsTheProcess(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for range 50 {
		child := exec.CommandContext(ctx, os.Args[0])
		child.Env = append(os.Environ(), childEnv+"=1", "GOMAXPROCS=1")
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		for _, want := range []string{"runs", "stops: interrupt signal received"} {
			if line, err := lines.ReadString('\n'); err != nil || strings.TrimSpace(line) != want {
				t.Fatalf("%q, %v; want %q", line, err, want)
			}
			if err := child.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
		ended, _ := errors.AsType[*exec.ExitError](child.Wait())
		if ended == nil {
			t.Fatal("it has ended by itself")
		}
		if status, ok := ended.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGINT {
			t.Fatalf("ended with %v", ended)
		}
	}
}

func TestStopEndsTheContext(t *testing.T) {
	t.Parallel()
	ctx, stop := interrupt.Context(t.Context(), syscall.SIGUSR1)
	if ctx.Err() != nil {
		t.Fatal(ctx.Err())
	}
	stop()
	stop()
	if !errors.Is(context.Cause(ctx), context.Canceled) {
		t.Errorf("cause %v", context.Cause(ctx))
	}
}

func TestItEndsWithItsParent(t *testing.T) {
	t.Parallel()
	parent, end := context.WithCancelCause(t.Context())
	ctx, stop := interrupt.Context(parent, syscall.SIGUSR2)
	defer stop()
	why := errors.New("why")
	end(why)
	if <-ctx.Done(); !errors.Is(context.Cause(ctx), why) {
		t.Errorf("cause %v", context.Cause(ctx))
	}
}
