// Package apply holds the command apply: a file declares objects, which the command makes, changes and, with --prune, deletes
// until the server has what the file says.
//
//	kinds.go    one table of the kinds of objects: how each is read, set and deleted
//	file.go     reads and checks a file; lines.go finds the line of what is wrong
//	exact.go    refuses what YAML reads as something else than is written
//	diff.go     compares settings
//	changes.go  what is to be done, and does it
package apply

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/client"
)

// options are the flags of apply.
type options struct {
	file, secrets              string
	dryRun, prune, tenants, js bool
}

// Command is the command apply.
func Command(a *cli.App) *cobra.Command {
	var o options
	command := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Create and change queues, schedules, webhooks and others until they are as a file says",
		Long: `Create and change objects until they are as a file says, in YAML or JSON. It has a label, and by their names queues, schedules,
webhooks, types and budgets of the tenant; with the operator's key also plans and tenants. Each object has the fields that PUT of the API
takes, and a field that is absent is the default. What differs is shown, then changed. A second time nothing differs.

The objects get the label. With --prune, those that have it and are no longer in the file are deleted. An object that cannot be deleted, such
as a queue with jobs, is reported, and the others are. Secrets of new webhooks are shown once.

The exit code of --dry-run is 0 where nothing differs, and 5 where something does.`,
		Example: "  forgequeue apply -f mail.yaml --prune\n  forgequeue apply -f mail.yaml --dry-run",
		Args:    cobra.NoArgs,
	}
	flags := command.Flags()
	flags.StringVarP(&o.file, "file", "f", "", "the file, or - for standard input")
	flags.BoolVar(&o.dryRun, "dry-run", false, "only show what differs; the exit code is 5 where something does")
	flags.BoolVar(&o.prune, "prune", false, "delete objects that have the file's label and are not in the file")
	flags.BoolVar(&o.tenants, "prune-tenants", false, "with --prune: delete tenants too, with all of their data")
	flags.StringVar(&o.secrets, "secrets", "", "append new secrets to this file, which only its owner can read, in the place of showing them")
	flags.BoolVar(&o.js, "json", false, "the same as -o json")
	command.RunE = func(command *cobra.Command, args []string) error {
		all := kinds()
		switch {
		case o.file == "":
			return cli.Usage("say which file: -f FILE, or -f - for standard input")
		case o.tenants && !o.prune:
			return cli.Usage("--prune-tenants needs --prune")
		}
		f, err := read(o.file, command.InOrStdin(), all)
		if err != nil {
			return err
		}
		if o.prune && f.label == "" {
			return cli.Usage("%s: --prune needs a label in the file, such as label: mail-team; it deletes objects that have it", f.name)
		}
		r := &run{options: o, file: f}
		for _, k := range all {
			if f.scope(k) {
				r.kinds = append(r.kinds, k)
			}
		}
		return r.sessions(a)(command, args)
	}
	return command
}

// scope says whether objects of a kind are looked at: those of the operator where the file has a section of them, those of the
// tenant unless it has only sections of the operator.
func (f *file) scope(of *kind) bool {
	operators := false
	for _, k := range kinds() {
		if f.sections[k.section] {
			if k.operator == of.operator {
				return true
			}
			operators = operators || k.operator
		}
	}
	return !of.operator && !operators
}

// sessions makes the command's body, with the keys that the kinds need.
func (r *run) sessions(a *cli.App) func(*cobra.Command, []string) error {
	needs := map[bool]bool{}
	for _, k := range r.kinds {
		needs[k.operator] = true
	}
	r.clients = map[bool]*client.Client{}
	enter := func(operator bool, next func(context.Context, *cli.Session) error) func(context.Context, *cli.Session, []string) error {
		return func(ctx context.Context, s *cli.Session, _ []string) error {
			r.clients[operator] = s.Client
			return next(ctx, s)
		}
	}
	switch {
	case !needs[true]:
		return a.AsTenant(enter(false, r.run))
	case !needs[false]:
		return a.AsOperator(enter(true, r.run))
	}
	return a.AsOperator(enter(true, func(_ context.Context, s *cli.Session) error {
		return a.AsTenant(enter(false, r.run))(s.Command, nil)
	}))
}
