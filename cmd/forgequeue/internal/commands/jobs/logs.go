package jobs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/wait"
)

func newJobLogs(a *cli.App) *cobra.Command {
	var follow bool
	var streams []string
	all := []string{api.OutputOut, api.OutputErr, api.OutputLog}
	command := &cobra.Command{
		Use:   "logs ID",
		Short: "Write a job's output; with --follow until the job has ended",
		Long: `Write what a job's attempts have written: standard output, standard error and log lines, in the order in which they came. The
server keeps 1 MiB of it, the first half and the end; a line says where some is missing. With -o json or jsonl each piece is a line of JSON.

With --follow it prints until the job has ended, however that is: "forgequeue job watch" has an exit code for it. A connection that
is lost is opened again, and nothing is lost or written twice.`,
		Example: `  forgequeue job logs "$ID" --follow
  forgequeue job logs "$ID" --stream err,log`,
		Args: cli.One(),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			for _, stream := range streams {
				if !slices.Contains(all, stream) {
					return cli.Usage("--stream %q: must be some of %s", stream, strings.Join(all, ", "))
				}
			}
			l := &logs{Session: s, id: args[0], streams: streams, newLine: true}
			if follow {
				return l.follow(ctx)
			}
			err := l.read(ctx)
			if err == nil && l.last == "" {
				s.Note("The job has written nothing.")
			}
			return err
		}),
	}
	flags := command.Flags()
	flags.BoolVarP(&follow, "follow", "f", false, "write what comes, until the job has ended")
	flags.StringSliceVar(&streams, "stream", nil, "only these streams, of out, err and log (default all)")
	_ = command.RegisterFlagCompletionFunc("stream", cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp))
	return command
}

// logs writes a job's output.
type logs struct {
	*cli.Session
	id string
	// streams are those to write; all if empty.
	streams []string
	// last is the ID of the last piece.
	last string
	// newLine says that the last line is whole.
	newLine bool
}

// read writes what there is.
func (l *logs) read(ctx context.Context) error {
	for piece, err := range l.Client.AllOutput(ctx, l.id, l.last) {
		if err == nil {
			err = l.write(&piece)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// follow writes what there is and what comes, until the job has ended. Where the key has too many streams open, it reads again and
// again. To be interrupted is no failure.
func (l *logs) follow(ctx context.Context) error {
	for event, err := range l.Client.Follow(ctx, l.id, "") {
		switch p, _ := problem.From(err); {
		case err == nil && event.Output != nil:
			if err := l.write(event.Output); err != nil {
				return err
			}
		case err == nil:
		case cli.Interrupted(ctx):
			return nil
		case p != nil && p.Code == problem.RateLimited:
			return l.poll(ctx)
		default:
			return err
		}
	}
	return nil
}

func (l *logs) poll(ctx context.Context) error {
	for {
		job, err := l.Client.Get(ctx, l.id) // before the output: all of that is there once it has ended
		if err == nil {
			err = l.read(ctx)
		}
		switch {
		case cli.Interrupted(ctx):
			return nil
		case err != nil && client.RetryAfter(err) == 0, err == nil && hasEnded(job):
			return err
		}
		if wait.For(ctx, max(pollEvery, client.RetryAfter(err))) != nil {
			return nil //nolint:nilerr // it was interrupted
		}
	}
}

func (l *logs) write(piece *api.Output) error {
	l.last = piece.ID
	wanted := len(l.streams) == 0 || slices.Contains(l.streams, piece.Stream)
	if l.JSON && wanted {
		return l.WriteJSON(piece, "")
	}
	if l.JSON || !wanted && !piece.Gap {
		return nil
	}
	text := ""
	if piece.Gap {
		if !l.newLine {
			text = "\n"
		}
		text += "[... output is missing here ...]\n"
	}
	if wanted {
		text += piece.Text
	}
	l.newLine = strings.HasSuffix(text, "\n")
	return l.WriteText(text)
}

func hasEnded(job api.Job) bool {
	return job.State == api.StateCompleted || job.State == api.StateCancelled || job.State == api.StateDeadLetter
}

// tail are the last lines that a job has written since they were shown.
type tail struct {
	lines []string
	// parts are the lines that are not whole, by their streams.
	parts map[string]string
	// left counts those before the lines.
	left int
}

// tailLines are how many are shown at once.
const tailLines = 10

func (t *tail) add(stream, text string) {
	lines := strings.Split(t.parts[stream]+text, "\n")
	t.parts[stream] = lines[len(lines)-1]
	t.lines = append(t.lines, lines[:len(lines)-1]...)
	if over := len(t.lines) - tailLines; over > 0 {
		t.lines, t.left = slices.Clone(t.lines[over:]), t.left+over
	}
}

// show writes the lines below a job's, and forgets them. The last one of a job that has ended is whole.
func (t *tail) show(s *cli.Screen, id string, ended bool) error {
	for _, stream := range slices.Sorted(maps.Keys(t.parts)) {
		if ended && t.parts[stream] != "" {
			t.add(stream, "\n")
		}
	}
	text := ""
	if t.left > 0 {
		text = fmt.Sprintf("  … %d lines before: forgequeue job logs %s\n", t.left, id)
	}
	for _, line := range t.lines {
		text += "  | " + line + "\n"
	}
	t.lines, t.left = nil, 0
	return s.WriteText(text)
}
