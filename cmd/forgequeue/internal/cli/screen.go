package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode"

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

func outputFlag(command *cobra.Command) {
	chosen := form(formTable)
	command.PersistentFlags().VarP(&chosen, "output", "o", "table, or json in the API's own shapes")
	// It fails only for a flag that is not there.
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]cobra.Completion{formTable, formJSON}, cobra.ShellCompDirectiveNoFileComp))
}

// screen is where a command writes: what was asked for to out, all else to err.
type screen struct {
	in       io.Reader
	out, err io.Writer
	json     bool
	// colours are for out alone; progress and questions want a terminal at err.
	colours  bool
	terminal bool
}

func (a *App) screen(command *cobra.Command) *screen {
	s := &screen{in: command.InOrStdin(), out: command.OutOrStdout(), err: command.ErrOrStderr()}
	if flag := command.Flag("output"); flag != nil {
		s.json = flag.Value.String() == formJSON
	}
	s.colours = isTerminal(s.out) && a.getenv("NO_COLOR") == ""
	s.terminal = isTerminal(s.err) && a.getenv("TERM") != "dumb"
	return s
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// note tells the user something beside what was asked for.
func (s *screen) note(format string, args ...any) {
	fmt.Fprintln(s.err, visible(fmt.Sprintf(format, args...)))
}

// show writes a value, as JSON or as the table that fill makes.
func (s *screen) show(value any, fill func(*table)) error {
	if s.json {
		return s.writeJSON(value, "  ")
	}
	t := &table{w: tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0), colours: s.colours}
	fill(t)
	return t.w.Flush()
}

// writeJSON leaves <, > and & as they are: what is shown can be sent again.
func (s *screen) writeJSON(value any, indent string) error {
	encoder := json.NewEncoder(s.out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	return encoder.Encode(value)
}

// progress shows that something is under way, on a terminal only. total is -1
// where it is not known; counted shows how far it has come. The function given
// ends it.
func (s *screen) progress(total int, counted bool, what string) (bar *progressbar.ProgressBar, end func()) {
	if !s.terminal {
		return nil, func() {}
	}
	options := []progressbar.Option{
		progressbar.OptionSetWriter(s.err), progressbar.OptionSetDescription(what), progressbar.OptionSetWidth(20),
		progressbar.OptionSetElapsedTime(true), progressbar.OptionSpinnerType(14),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(false),
	}
	if counted {
		options = append(options, progressbar.OptionShowCount())
	}
	bar = progressbar.NewOptions(total, options...)
	_ = bar.RenderBlank() // nobody to be told
	return bar, func() { _ = bar.Finish() }
}

// table is text in columns.
type table struct {
	w       *tabwriter.Writer
	colours bool
}

// row writes cells. They hold what strangers wrote, so nothing in them may steer
// the terminal.
func (t *table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = t.text(cell)
	}
	fmt.Fprintln(t.w, strings.Join(texts, "\t"))
}

func (t *table) text(cell any) string {
	if coloured, ok := cell.(coloured); ok {
		return paint(t.colours, coloured.colour, visible(coloured.text))
	}
	text := visible(fmt.Sprint(cell))
	if text == "" {
		return "-"
	}
	return text
}

// pair is a line of a description; one without a value is left out.
func (t *table) pair(name, value string) {
	if value != "" {
		fmt.Fprintf(t.w, "%s\t%s\n", name, visible(value))
	}
}

// colour is the number of a terminal's colour. All have two digits, so that the
// cells of a column stay aligned: each has the same invisible width.
type colour int

const (
	plain  colour = 39
	red    colour = 31
	green  colour = 32
	yellow colour = 33
	blue   colour = 34
)

type coloured struct {
	text   string
	colour colour
}

func paint(colours bool, c colour, text string) string {
	if !colours {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", int(c), text)
}

// visible puts a space in the place of what moves the cursor or colours the text.
func visible(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, text)
}

// visibleLines is visible for a text of several lines.
func visibleLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = visible(line)
	}
	return strings.Join(lines, "\n")
}
