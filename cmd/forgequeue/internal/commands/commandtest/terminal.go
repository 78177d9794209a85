package commandtest

import (
	"context"
	"io"

	"github.com/creack/pty"
)

// Terminal is a command whose standard output is a terminal.
type Terminal struct {
	screen, errs *Buffer
	code         chan int
}

// OnTerminal starts a command on a terminal of a size, in characters.
func (f *Fixture) OnTerminal(ctx context.Context, columns, lines uint16, args ...string) *Terminal {
	f.Helper()
	master, tty, err := pty.Open()
	if err == nil {
		err = pty.Setsize(tty, &pty.Winsize{Rows: lines, Cols: columns})
	}
	if err != nil {
		f.Fatal(err)
	}
	t := &Terminal{screen: &Buffer{}, errs: &Buffer{}, code: make(chan int, 1)}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(t.screen, master) // it ends with an error when the command has closed its side
	}()
	go func() {
		code := f.Start(tty, t.errs, "")(ctx, args...)
		_ = tty.Close()
		<-copied
		_ = master.Close()
		t.code <- code
	}()
	return t
}

// Screen is what was written so far.
func (t *Terminal) Screen() string { return t.screen.String() }

// Wait waits for the command's end.
func (t *Terminal) Wait() Result { return Result{<-t.code, t.screen.String(), t.errs.String()} }
