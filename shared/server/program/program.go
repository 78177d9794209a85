// Package program runs a service's program from its table of commands. cmd/forgequeue renders the same table by cobra.
package program

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/forgequeue/forgequeue/shared/interrupt"
	"github.com/forgequeue/forgequeue/shared/server/build"
)

// Serve is the name of the command that runs the service.
const Serve = "serve"

// Command is one command of a service with settings of the type Config.
type Command[Config any] struct {
	// Name is its words, such as "tenant move", Args the names of its arguments, such as "TENANT CELL".
	Name, Args string
	// Help is one line without a full stop, Long more of it; empty where Help says all.
	Help, Long string
	// Flags declares its flags; nil for none.
	Flags func(*flag.FlagSet)
	// Accepts checks its arguments after its flags; nil where it takes none.
	Accepts func(args []string) error
	// Run does it. Where err is not nil cfg has settings that are wrong: most commands need only some of them.
	Run func(ctx context.Context, cfg Config, err error, call Call) error
}

// Call is how a command is called.
type Call struct {
	Args []string
	Out  io.Writer
}

// FoundError is what a check has found: a failure that is not of the settings or of what they name.
type FoundError struct{ Text string }

func (e FoundError) Error() string { return e.Text }

// Check checks a command's arguments.
func (c *Command[Config]) Check(args []string) error {
	switch {
	case c.Accepts != nil:
		return c.Accepts(args)
	case len(args) > 0:
		return fmt.Errorf("%s takes no arguments", c.Name)
	}
	return nil
}

// Program is a service's program.
type Program[Config any] struct {
	Name     string
	Commands []Command[Config]
	// Settings are read when a command is known.
	Settings func() (Config, error)
	// Default is the command of a call without words; empty for none.
	Default string
}

// Main runs the program, and gives its exit code: 1 for a failure, 2 for a wrong command line. It drains at the first
// SIGTERM or SIGINT; the second ends the process at once.
func (p Program[Config]) Main(ctx context.Context, words []string) int {
	ctx, stop := interrupt.Context(ctx)
	defer stop()
	if len(words) == 0 && p.Default != "" {
		words = []string{p.Default}
	}
	if len(words) == 1 && words[0] == "version" {
		fmt.Println(p.Name, build.This())
		return 0
	}
	for i := range p.Commands {
		command := &p.Commands[i]
		rest, ok := strings.CutPrefix(strings.Join(words, "\x00")+"\x00", strings.ReplaceAll(command.Name, " ", "\x00")+"\x00")
		if !ok {
			continue
		}
		args, err := command.parse(strings.FieldsFunc(rest, func(r rune) bool { return r == 0 }))
		if err != nil {
			break
		}
		cfg, wrong := p.Settings()
		if err := command.Run(ctx, cfg, wrong, Call{Args: args, Out: os.Stdout}); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
			return 1
		}
		return 0
	}
	p.usage(os.Stderr)
	return 2
}

// parse reads flags wherever they are among the arguments.
func (c *Command[Config]) parse(words []string) (args []string, err error) {
	flags := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	if c.Flags != nil {
		c.Flags(flags)
	}
	for {
		if err := flags.Parse(words); err != nil {
			return nil, err
		}
		if flags.NArg() == 0 {
			return args, c.Check(args)
		}
		args, words = append(args, flags.Arg(0)), flags.Args()[1:]
	}
}

// usage lists the commands.
func (p Program[Config]) usage(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "usage: %s COMMAND\n\n", p.Name)
	for i := range p.Commands {
		c := &p.Commands[i]
		flags := flag.NewFlagSet(c.Name, flag.ContinueOnError)
		if c.Flags != nil {
			c.Flags(flags)
		}
		words := strings.TrimSuffix(c.Name+" "+c.Args, " ")
		flags.VisitAll(func(f *flag.Flag) { words += " [--" + f.Name + "]" })
		help := c.Help
		if c.Name == p.Default {
			help += "; " + p.Name + " alone does the same"
		}
		fmt.Fprintf(table, "  %s\t%s\n", words, help)
	}
	fmt.Fprint(table, "  version\tSay which build this is\n\nSettings come from the environment; api-docs/config.md lists them.\n")
	_ = table.Flush() // to standard error
}
