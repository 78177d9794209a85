package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Screen is a command's input and output: results go to Out, everything else to Err.
type Screen struct {
	In       io.Reader
	Out, Err io.Writer
	// JSON says that results are wanted for a program: in another form than a table.
	JSON bool
	// form is the form of results.
	form form
	// profile and url are the values of --profile and --url.
	profile, url string
	// colours: Out is a terminal that takes colours.
	colours bool
	// terminal: Err is a terminal that takes progress and questions.
	terminal bool
}

// Screen is the input and output of a command.
func (a *App) Screen(command *cobra.Command) *Screen {
	s := &Screen{In: command.InOrStdin(), Out: command.OutOrStdout(), Err: command.ErrOrStderr()}
	if flag := command.Flag("output"); flag != nil {
		s.form = form(flag.Value.String())
		s.JSON = s.form != formTable
	}
	for name, value := range map[string]*string{"profile": &s.profile, "url": &s.url} {
		*value = persistent(command, name)
	}
	s.colours, _ = takes(s.Out, a.Getenv)
	_, s.terminal = takes(s.Err, a.Getenv)
	return s
}

// persistent is the value of a flag that a command or one of its parents gives to all below it. A flag of the command
// alone that has its name is not read instead.
func persistent(command *cobra.Command, name string) string {
	for ; command != nil; command = command.Parent() {
		if flag := command.PersistentFlags().Lookup(name); flag != nil {
			return flag.Value.String()
		}
	}
	return ""
}

// Interactive reports whether the user can be asked a question.
func (s *Screen) Interactive() bool { return s.terminal && isTerminal(s.In) }

// takes says whether an output is a terminal that takes colours, and one that moves its cursor, for progress and questions.
// TERM=dumb is neither; NO_COLOR is no-color.org's.
func takes(stream any, getenv func(string) string) (colours, cursor bool) {
	cursor = isTerminal(stream) && getenv("TERM") != "dumb"
	return cursor && getenv("NO_COLOR") == "", cursor
}

func isTerminal(stream any) bool {
	file, ok := fileOf(stream)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Paint is text in a colour, where the output takes colours.
func (s *Screen) Paint(c Colour, text string) string { return paint(s.colours, c, text) }

// Width is how many characters a line of the output may have: the terminal's width, or a usual one elsewhere.
func (s *Screen) Width() int {
	const usual, least = 120, 40
	file, ok := fileOf(s.Out)
	if !ok {
		return usual
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return usual
	}
	return max(width, least)
}

// WriteText writes a text from outside as the result: as it is, or on a terminal with nothing in it that the terminal obeys.
func (s *Screen) WriteText(text string) error {
	if isTerminal(s.Out) {
		text = visibleText(text)
	}
	_, err := io.WriteString(s.Out, text)
	return err
}

// OnTerminal reports whether results are a table on a terminal, which a person reads now.
func (s *Screen) OnTerminal() bool { return s.form == formTable && isTerminal(s.Out) }

// silentFor is after what time a command that waits says so where there is no terminal.
const silentFor = 2 * time.Second

// Note writes a line that is no result.
func (s *Screen) Note(format string, args ...any) {
	fmt.Fprintln(s.Err, Visible(fmt.Sprintf(format, args...)))
}

// Show writes a result, in the form that is wanted or as the table that fill makes.
func (s *Screen) Show(value any, fill func(*Table)) error {
	if s.JSON {
		return s.WriteJSON(value, "  ")
	}
	t := s.table(s.Out)
	fill(t)
	return s.finish(t)
}

func (s *Screen) table(to io.Writer) *Table {
	t := &Table{to: to, look: look{colours: s.colours, now: time.Now()}}
	if isTerminal(s.Out) {
		t.width = s.Width()
	}
	return t
}

// finish writes the rest of a table.
func (s *Screen) finish(t *Table) error {
	t.flush()
	if len(t.hidden) > 0 && t.err == nil {
		s.Note("Hidden columns: %s (widen the terminal, or use -o json).", strings.Join(t.hidden, ", "))
	}
	return t.err
}

// Progress shows a progress bar, on a terminal only: bar is nil elsewhere. total is -1 if it is not known;
// counted shows the count. end removes the bar.
func (s *Screen) Progress(total int, counted bool, what string) (bar *progressbar.ProgressBar, end func()) {
	if !s.terminal {
		timer := time.AfterFunc(silentFor, func() { s.Note("%s …", what) })
		return nil, func() { timer.Stop() }
	}
	options := []progressbar.Option{
		progressbar.OptionSetWriter(s.Err), progressbar.OptionSetDescription(what), progressbar.OptionSetWidth(20),
		progressbar.OptionSetElapsedTime(true), progressbar.OptionSpinnerType(14),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(false),
	}
	if counted {
		options = append(options, progressbar.OptionShowCount())
	}
	bar = progressbar.NewOptions(total, options...)
	_ = bar.RenderBlank() // a failed write to a terminal changes nothing
	return bar, func() { _ = bar.Finish() }
}
