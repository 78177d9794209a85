package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// output is a command's standard output. It keeps the first error of a write, so that a command that ignores one
// does not end as if its result had been written.
type output struct {
	to io.Writer

	mu  sync.Mutex
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
	}
	return n, err
}

// failed is the error of a write, nil if all succeeded.
func (o *output) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		return nil
	}
	return fmt.Errorf("the output could not be written: %w", o.err)
}

// fileOf is the file that a stream writes to or reads from, if it is one.
func fileOf(stream any) (*os.File, bool) {
	if out, ok := stream.(*output); ok {
		stream = out.to
	}
	file, ok := stream.(*os.File)
	return file, ok
}
