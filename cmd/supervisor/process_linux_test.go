package supervisor

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
)

// onMortalThread runs f on a thread that ends with it, and returns when it has.
func onMortalThread(t *testing.T, f func()) {
	t.Helper()
	thread := make(chan int)
	var try func()
	try = func() {
		runtime.LockOSThread() // not unlocked: then the thread ends with the goroutine
		id := syscall.Gettid()
		if id == os.Getpid() {
			// The main thread never ends. Another one, while we sit on it.
			defer runtime.UnlockOSThread()
			done := make(chan struct{})
			go func() {
				defer close(done)
				try()
			}()
			<-done
			return
		}
		f()
		thread <- id
	}
	go try()
	id := <-thread
	eventually(t, "the end of the thread", func() bool { return !exists(fmt.Sprintf("/proc/self/task/%d", id)) })
}

// The death signal is the thread's: the server must not be a child of a thread
// that its caller, or Go, may end at any time.
func TestServerOutlivesTheThreadThatAsked(t *testing.T) {
	t.Parallel()
	binary := redisBinary(t)
	var r *Redis
	var err error
	onMortalThread(t, func() { r, err = StartRedis(t.Context(), RedisOptions{Binary: binary}) })
	must(t, err)
	if got := ask(t, "unix", r.socket, "PING"); got != "+PONG" {
		t.Errorf("got %q", got)
	}
	must(t, r.Stop(withinPatience(t)))
	must(t, r.Err())
}
