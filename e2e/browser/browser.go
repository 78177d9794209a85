// Package browser is a tab of a real browser for tests: Debian's Chromium, over its debugging protocol.
package browser

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// ScreenshotsEnv names a folder for screenshots, for people to look at; without it there are none.
const ScreenshotsEnv = "FORGEQUEUE_SCREENSHOTS"

// Tab is a tab of a browser of the test's own.
type Tab struct {
	*testing.T // the part that runs

	Ctx   context.Context
	shots string

	mu         sync.Mutex
	complaints []string
}

// New starts a browser, which takes as much CPU as a test. Without one the test is skipped; CI has one.
func New(t *testing.T) *Tab {
	t.Helper()
	b := &Tab{T: t, shots: os.Getenv(ScreenshotsEnv)}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program(t)), chromedp.WindowSize(1280, 1800), chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("force-prefers-reduced-motion", true)) // without a GPU, each frame is the processor's
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium has none for root
	}
	allocator, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	ctx, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(closeTab)
	b.open(ctx)
	return b
}

// Another opens another tab of the browser, which is seen too, until the test ends.
func (b *Tab) Another() *Tab {
	b.Helper()
	ctx, closeTab := chromedp.NewContext(b.Ctx)
	b.Cleanup(closeTab)
	another := &Tab{T: b.T, shots: b.shots}
	another.open(ctx)
	return another
}

func (b *Tab) open(ctx context.Context) {
	b.Helper()
	b.Ctx = ctx
	if err := chromedp.Do(ctx); err != nil {
		b.Fatalf("the browser does not start: %v", err)
	}
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		b.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		b.Fatal(err)
	}
}

// program finds a browser. CI has one: see .ci/install.
func program(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return stack.Need(t, "chromium")
}

// hear notes what the console and the policy complain of.
func (b *Tab) hear(event any) {
	said := ""
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			said = fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			said = "console: "
			for _, arg := range e.Args {
				said += string(arg.Value) + " "
			}
		}
	case *runtime.EventExceptionThrown:
		said = "exception: " + e.ExceptionDetails.Text
	}
	if said != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.complaints = append(b.complaints, said)
	}
}

// Silent checks that there were no complaints, those that contain a text of expected aside.
func (b *Tab) Silent(expected ...string) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
complaints:
	for _, complaint := range b.complaints {
		for _, text := range expected {
			if strings.Contains(complaint, text) {
				continue complaints
			}
		}
		b.Error("the browser complains of ", complaint)
	}
	b.complaints = nil
}

// Do runs steps within a time that is enough for all of them.
func (b *Tab) Do(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, stack.Patience(time.Minute))
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.Shot("failed")
		b.Fatalf("%s: %v; complaints: %q", what, err, b.complaints)
	}
}

// Eventually waits until an expression is true, on this page or on one that is opened meanwhile.
func (b *Tab) Eventually(what, expression string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, stack.Patience(30*time.Second))
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause = min(pause*3/2, 250*time.Millisecond) {
		// An error may be of a page that is being left, or of one that is not complete.
		holds, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`Boolean(`+expression+`)`))
		if err == nil && holds {
			return
		}
		if wait.For(ctx, pause) != nil {
			b.Shot("failed")
			b.Fatalf("%s: it does not come (%v); complaints: %q", what, err, b.complaints)
		}
	}
}

// Evaluate gives the value of an expression, awaited.
func Evaluate[T any](b *Tab, what, expression string) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Ctx, stack.Patience(time.Minute))
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Shot("failed")
		b.Fatalf("%s: %v", what, err)
	}
	return value
}

// Look makes the window so wide, light or dark.
func (b *Tab) Look(scheme string, width int64) {
	b.Helper()
	b.Do("a window of another size", chromedp.EmulateViewport(width, 1800))
	if _, err := chromedp.Call(b.Ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}); err != nil {
		b.Fatal(err)
	}
}

// Shot keeps what the page looks like, all of it.
func (b *Tab) Shot(name string) {
	b.Helper()
	if b.shots == "" {
		return
	}
	image, err := chromedp.Run(b.Ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.Logf("no screenshot %s: %v", name, err)
		return
	}
	if contentType := http.DetectContentType(image); contentType != "image/png" {
		b.Errorf("the screenshot %s is %s", name, contentType)
	}
	if err := os.WriteFile(filepath.Join(b.shots, name+".png"), image, 0o600); err != nil {
		b.Error(err)
	}
}
