// Package execute runs a command as the handler of a worker: its standard input is the payload, its standard
// output the result, its exit code the outcome.
//
//	0          completes; standard output is the result: JSON where it is JSON, else a text
//	75         snoozes (EX_TEMPFAIL of sysexits.h): back later, the attempt is not spent
//	65         fails for good (EX_DATAERR): never retried
//	any other  fails the attempt, with the end of standard error
//
// A command runs in a process group of its own. When its job's context ends (a
// cancel, a lost lease, a timeout, the worker's stop) the group gets SIGTERM, and
// SIGKILL after Grace. When the command itself has ended, the rest of its group
// gets SIGKILL: a job leaves no process behind.
package execute

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/worker"
)

// Exit codes with a meaning, from sysexits.h: EX_TEMPFAIL and EX_DATAERR.
const (
	exitSnooze    = 75
	exitPermanent = 65
)

// Command is what to run for each job. All fields except Timeout are required.
type Command struct {
	// Args are the program and its arguments.
	Args []string
	// Env is its environment, to which the job's own variables are added.
	Env []string
	// Snooze is for how long exit code 75 puts a job back.
	Snooze time.Duration
	// Timeout bounds one execution, beside the job's own; none if 0.
	Timeout time.Duration
	// Grace is how long the command has after SIGTERM.
	Grace time.Duration
	// Stderr gets what commands write to standard error, besides the job's record.
	Stderr io.Writer
	// Silent says that what a command writes is not sent to its job's output.
	Silent bool
}

// stopGrace replaces Grace when the worker stops: the worker waits for 2 s, then abandons the command and
// releases its job.
const stopGrace = 1500 * time.Millisecond

// errTimeout is the cause of an execution that took longer than Command.Timeout.
var errTimeout = errors.New("the command has used up its --timeout")

// Handle runs the command for one job; it is a worker.HandlerFunc.
func (c *Command) Handle(ctx context.Context, job *worker.RawJob) (json.RawMessage, error) {
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.Timeout, errTimeout)
		defer cancel()
	}
	stdout, stderr := &capped{limit: api.MaxResult}, &tail{limit: messageSize, through: c.Stderr}
	command := exec.Command(c.Args[0], c.Args[1:]...) //nolint:noctx // ctx ends the whole group, SIGTERM first: see group
	command.Env = append(append([]string{}, c.Env...), environment(job)...)
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(job.Raw), stdout, stderr
	if !c.Silent {
		command.Stdout, command.Stderr = io.MultiWriter(stdout, job.Output()), io.MultiWriter(stderr, job.ErrOutput())
	}
	// A child of the command that keeps the output open must not delay the end of the job.
	command.WaitDelay = time.Second
	g := &group{command: command, grace: c.grace}
	cause, err := g.run(ctx)
	if err != nil {
		// The command never ran, so no attempt is spent; the log has the cause.
		return nil, fmt.Errorf("the command cannot be started (%w): %w", err, worker.Snooze(c.Snooze))
	}
	return c.verdict(command.ProcessState, cause, stdout, stderr)
}

func (c *Command) grace(cause error) time.Duration {
	if errors.Is(cause, worker.ErrStopping) {
		return min(c.Grace, stopGrace)
	}
	return c.Grace
}

// verdict turns the end of the command into what a handler returns. cause is why it was stopped, nil if it ended
// by itself.
func (c *Command) verdict(state *os.ProcessState, cause error, stdout *capped, stderr *tail) (json.RawMessage, error) {
	switch {
	case state.ExitCode() == 0 && stdout.over:
		return nil, worker.Permanent(&failure{"result", fmt.Sprintf(
			"the command's standard output has more than the %d bytes that a result may have", api.MaxResult,
		)})
	case state.ExitCode() == 0:
		return result(stdout.kept.Bytes())
	case state.ExitCode() == exitSnooze:
		return nil, worker.Snooze(c.Snooze)
	}
	failed := failureOf(state, cause, stderr.String())
	if state.ExitCode() == exitPermanent {
		return nil, worker.Permanent(failed)
	}
	return nil, failed
}

// result is the command's output as JSON. Line ends at the end of a text are removed, as by a shell's $(…).
func result(output []byte) (json.RawMessage, error) {
	trimmed := bytes.TrimSpace(output)
	switch {
	case len(trimmed) == 0:
		return nil, nil // null
	case json.Valid(trimmed):
		return trimmed, nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(strings.TrimRight(string(output), "\r\n")); err != nil {
		return nil, worker.Permanent(&failure{"result", err.Error()})
	}
	encoded := bytes.TrimSuffix(text.Bytes(), []byte("\n"))
	if len(encoded) > api.MaxResult {
		return nil, worker.Permanent(&failure{"result", fmt.Sprintf(
			"the command's standard output is no JSON, and as a JSON string it has %d bytes, more than the %d that a result may have", len(encoded), api.MaxResult,
		)})
	}
	return encoded, nil
}

// environment is the job's variables.
func environment(job *worker.RawJob) []string {
	metadata, err := json.Marshal(job.Metadata)
	if err != nil || job.Metadata == nil {
		metadata = []byte("{}") // err is always nil for a map of strings
	}
	var workflow api.JobWorkflow
	if job.Workflow != nil {
		workflow = *job.Workflow
	}
	deadline := ""
	if !job.Deadline.IsZero() {
		deadline = job.Deadline.UTC().Format(time.RFC3339Nano)
	}
	// The name that OpenTelemetry's tools read. Empty for none, or the command would inherit the worker's.
	all := []string{"TRACEPARENT=" + job.Traceparent}
	for _, pair := range [][2]string{
		{"ID", job.ID},
		{"TYPE", job.Type},
		{"QUEUE", job.Queue},
		{"TENANT", job.Tenant},
		{"USER", job.User},
		{"PRIORITY", strconv.Itoa(job.Priority)},
		{"ATTEMPT", strconv.Itoa(job.Attempt)},
		{"MAX_ATTEMPTS", strconv.Itoa(job.MaxAttempts)},
		{"EPOCH", strconv.FormatInt(job.Epoch, 10)},
		{"TAGS", strings.Join(job.Tags, ",")},
		{"METADATA", string(metadata)},
		{"DEADLINE", deadline},
		{"CREATED_AT", job.CreatedAt.UTC().Format(time.RFC3339Nano)},
		{"CORRELATION_ID", job.CorrelationID},
		{"TRACEPARENT", job.Traceparent},
		{"WORKFLOW", workflow.ID},
		{"WORKFLOW_REF", workflow.Ref},
	} {
		all = append(all, "FORGEQUEUE_JOB_"+pair[0]+"="+strings.ReplaceAll(pair[1], "\x00", ""))
	}
	return all
}
