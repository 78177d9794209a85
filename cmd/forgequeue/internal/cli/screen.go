package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Forms of output.
const (
	formTable = "table"
	formJSON  = "json"
)

// form is the value of -o.
type form string

func (f *form) String() string { return string(*f) }
func (*form) Type() string     { return "table|json" }

func (f *form) Set(text string) error {
	if text != formTable && text != formJSON {
		return fmt.Errorf("must be %s or %s", formTable, formJSON)
	}
	*f = form(text)
	return nil
}

// OutputFlag adds -o to a command and its subcommands.
func OutputFlag(command *cobra.Command) {
	chosen := form(formTable)
	command.PersistentFlags().VarP(&chosen, "output", "o", "table, or json in the API's own shapes")
	// It fails only for a flag that is not there.
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]cobra.Completion{formTable, formJSON}, cobra.ShellCompDirectiveNoFileComp))
}

// Screen is a command's input and output: results go to Out, everything else to Err.
type Screen struct {
	In       io.Reader
	Out, Err io.Writer
	// JSON says that results are wanted as JSON.
	JSON bool
	// colours: Out is a terminal that takes colours.
	colours bool
	// terminal: Err is a terminal that takes progress and questions.
	terminal bool
}

// Screen is the input and output of a command.
func (a *App) Screen(command *cobra.Command) *Screen {
	s := &Screen{In: command.InOrStdin(), Out: command.OutOrStdout(), Err: command.ErrOrStderr()}
	if flag := command.Flag("output"); flag != nil {
		s.JSON = flag.Value.String() == formJSON
	}
	s.colours = isTerminal(s.Out) && a.Getenv("NO_COLOR") == ""
	s.terminal = isTerminal(s.Err) && a.Getenv("TERM") != "dumb"
	return s
}

// Interactive reports whether the user can be asked a question.
func (s *Screen) Interactive() bool { return s.terminal && isTerminal(s.In) }

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Paint is text in a colour, where the output takes colours.
func (s *Screen) Paint(c Colour, text string) string { return paint(s.colours && c != Plain, c, text) }

// Width is how many characters a line of the output may have: the terminal's width, or a usual one elsewhere.
func (s *Screen) Width() int {
	const usual, least = 120, 40
	file, ok := s.Out.(*os.File)
	if !ok {
		return usual
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return usual
	}
	return max(width, least)
}

// Note writes a line that is no result.
func (s *Screen) Note(format string, args ...any) {
	fmt.Fprintln(s.Err, Visible(fmt.Sprintf(format, args...)))
}

// Show writes a result, as JSON or as the table that fill makes.
func (s *Screen) Show(value any, fill func(*Table)) error {
	if s.JSON {
		return s.WriteJSON(value, "  ")
	}
	t := &Table{w: tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0), colours: s.colours}
	fill(t)
	return t.w.Flush()
}

// WriteJSON leaves <, > and & as they are, so that what it writes can be sent again.
func (s *Screen) WriteJSON(value any, indent string) error {
	encoder := json.NewEncoder(s.Out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	return encoder.Encode(value)
}

// Progress shows a progress bar, on a terminal only: bar is nil elsewhere. total is -1 if it is not known;
// counted shows the count. end removes the bar.
func (s *Screen) Progress(total int, counted bool, what string) (bar *progressbar.ProgressBar, end func()) {
	if !s.terminal {
		return nil, func() {}
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
