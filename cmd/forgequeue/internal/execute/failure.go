package execute

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/forgequeue/forgequeue/shared/api"
)

// messageSize leaves room in the message for the exit status before the output.
const messageSize = api.MaxErrorMessage - 256

// failure is how a command failed. Its kind groups dead letters of the same cause.
type failure struct{ kind, text string }

func (f *failure) Error() string     { return f.text }
func (f *failure) ErrorType() string { return f.kind }

// failureOf is the exit status and the end of standard error.
func failureOf(state *os.ProcessState, cause error, written string) *failure {
	f := &failure{kind: fmt.Sprintf("exit_%d", state.ExitCode()), text: state.String()}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		f.kind = fmt.Sprintf("signal_%d", int(status.Signal()))
	}
	if errors.Is(cause, errTimeout) {
		f.kind = "timeout"
		f.text = cause.Error() + ": " + f.text
	}
	if written != "" {
		f.text += ": " + written
	}
	return f
}
