package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func newType(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:     "type",
		Aliases: []string{"types"},
		Short:   "Job types, which say what payloads and results look like: set, list, get, versions, delete",
		Args:    cobra.NoArgs,
	}
	list := cli.List(a.AsTenant, "list", "List job types with what is checked", (*client.Client).Types, jobTypes)
	command.Flags().AddFlagSet(list.Flags()) // `type` alone is the list
	command.RunE = list.RunE
	command.AddCommand(
		list, newTypeSet(a), newTypeGet(a),
		cli.ListOf(a.AsTenant, "versions TYPE", "List the versions of a job type that are kept, newest first", (*client.Client).TypeVersions, jobTypes),
		cli.Delete(a.AsTenant, "delete TYPE", "Delete a job type; its jobs stay, and are no longer checked", (*client.Client).DeleteType),
	)
	return command
}

func jobTypes(t *cli.Table, all []api.JobTypeSummary) {
	t.Head("TYPE", "VERSION", "CHECKED", cli.Minor("DEFAULTS"), cli.Least("SINCE"), cli.Least("DESCRIPTION"))
	for _, one := range all {
		t.Row(one.Type, one.Version, checked(one.ChecksPayload, one.ChecksResults), defaultsOf(one.Defaults), here(one.CreatedAt), cli.Brief(one.Description))
	}
}

func checked(payload, results bool) string {
	switch {
	case payload && results:
		return "payload, result"
	case payload:
		return "payload"
	case results:
		return "result"
	}
	return ""
}

// defaultsOf is empty where there are none.
func defaultsOf(d api.JobTypeDefaults) string {
	text, err := json.Marshal(d)
	if err != nil || string(text) == "{}" {
		return ""
	}
	return string(text)
}

func newTypeGet(a *cli.App) *cobra.Command {
	var version int
	command := &cobra.Command{Use: "get TYPE", Short: "Show a job type with its schemas", Args: cli.One()}
	command.Flags().IntVar(&version, "at-version", 0, "a version that is kept (default the newest)")
	command.RunE = a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
		read := func() (api.JobType, error) { return s.Client.Type(ctx, args[0]) }
		if version > 0 {
			read = func() (api.JobType, error) { return s.Client.TypeVersion(ctx, args[0], version) }
		}
		one, err := read()
		if err != nil {
			return err
		}
		return s.Show(one, func(t *cli.Table) { describeType(t, one) })
	})
	return command
}

func describeType(t *cli.Table, one api.JobType) {
	t.Pair("type", one.Type)
	t.Pair("version", one.Version)
	t.Pair("label", cli.OrElse(one.Label, ""))
	t.Pair("since", here(one.CreatedAt))
	t.Pair("description", one.Description)
	t.Pair("defaults", defaultsOf(one.Defaults))
	t.Pair("payload", indented(one.PayloadSchema))
	t.Pair("result", indented(one.ResultSchema))
	if api.HasSchema(one.ResultSchema) {
		t.Pair("results checked", one.CheckResults)
	}
	for i, example := range one.Examples {
		t.Pair([...]string{"examples", " "}[min(i, 1)], cli.Brief(string(example)))
	}
}

func indented(schema json.RawMessage) string {
	if !api.HasSchema(schema) {
		return ""
	}
	var made bytes.Buffer
	if json.Indent(&made, schema, "", "  ") != nil {
		return string(schema)
	}
	return made.String()
}

// typeFlags are a type as flags.
type typeFlags struct {
	description, payload, result, queue string
	examples                            []string
	priority, attempts                  int
	timeout, retryBase                  time.Duration
	checkResults, force, reset          bool
}

func newTypeSet(a *cli.App) *cobra.Command {
	var f typeFlags
	command := &cobra.Command{
		Use:   "set TYPE",
		Short: "Create a job type, or a new version of it",
		Long: `Create a job type, or a new version of it. What is not given stays as it is; with --reset it becomes empty.

Schemas are JSON Schema 2020-12. From then on, a payload that does not fit is refused, and the answer names each place in it that does not fit.
A schema that waiting jobs do not fit is refused, unless --force is given. --payload-schema null removes the check.`,
		Example: `  forgequeue type set mail.send --payload-schema @mail.schema.json --example '{"to":"ada@example.com"}' --queue mail
  forgequeue type set hash --result-schema '{"required":["sha256"]}' --check-results`,
		Args: cli.One(),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error { return setType(ctx, s, args[0], &f) }),
	}
	flags := command.Flags()
	flags.StringVar(&f.description, "description", "", "what jobs of the type do")
	flags.StringVar(&f.payload, "payload-schema", "", "schema of payloads: JSON, @FILE or - for standard input")
	flags.StringVar(&f.result, "result-schema", "", "schema of results: JSON, @FILE or - for standard input")
	flags.BoolVar(&f.checkResults, "check-results", false, "refuse results that do not match")
	flags.StringArrayVar(&f.examples, "example", nil, "a payload that matches: JSON or @FILE; repeatable")
	flags.StringVarP(&f.queue, "queue", "q", "", "queue of submits that name none")
	flags.IntVar(&f.priority, "priority", api.DefaultPriority, "priority of submits that name none: 0 to 9, higher first")
	flags.IntVar(&f.attempts, "max-attempts", api.DefaultMaxAttempts, "attempts of submits that name none")
	flags.DurationVar(&f.timeout, "timeout", 0, "longest time for one execution, of submits that name none")
	flags.DurationVar(&f.retryBase, "retry-base", 0, "wait after the first failure, of submits that name none")
	flags.BoolVar(&f.force, "force", false, "store it although waiting jobs do not match")
	flags.BoolVar(&f.reset, "reset", false, "empty what is not given")
	return command
}

func setType(ctx context.Context, s *cli.Session, name string, f *typeFlags) error {
	request := api.JobTypeRequest{Defaults: &api.JobTypeDefaults{}}
	if !f.reset {
		// The API replaces all of it, so what is not given is sent as it is.
		one, err := s.Client.Type(ctx, name)
		if err != nil && !cli.IsNotFound(err) {
			return err
		}
		if err == nil {
			request = one.Request()
		}
	}
	if err := f.apply(s, &request); err != nil {
		return err
	}
	put := s.Client.PutType
	if f.force {
		put = s.Client.ForceType
	}
	one, err := put(ctx, name, request)
	if err != nil {
		return err
	}
	return s.Show(one, func(t *cli.Table) { describeType(t, one) })
}

func (f *typeFlags) apply(s *cli.Session, r *api.JobTypeRequest) (err error) {
	given := s.Command.Flags().Changed
	for flag, set := range map[string]func(){
		"description": func() { r.Description = f.description }, "check-results": func() { r.CheckResults = f.checkResults },
		"queue": func() { r.Defaults.Queue = &f.queue }, "priority": func() { r.Defaults.Priority = &f.priority },
		"max-attempts": func() { r.Defaults.MaxAttempts = &f.attempts },
		"timeout":      func() { r.Defaults.TimeoutMS = cli.GivenMS(s.Command, "timeout", f.timeout) },
		"retry-base": func() {
			if r.Defaults.Retry == nil {
				r.Defaults.Retry = &api.RetryRequest{}
			}
			r.Defaults.Retry.BaseMS = cli.GivenMS(s.Command, "retry-base", f.retryBase)
		},
	} {
		if given(flag) {
			set()
		}
	}
	if given("payload-schema") {
		if r.PayloadSchema, err = readJSON("payload-schema", f.payload, s.In, api.MaxSchema); err != nil {
			return err
		}
	}
	if given("result-schema") {
		if r.ResultSchema, err = readJSON("result-schema", f.result, s.In, api.MaxSchema); err != nil {
			return err
		}
	}
	if given("example") {
		r.Examples = nil
	}
	for _, text := range f.examples {
		example, err := readJSON("example", text, s.In, api.MaxTypeExample)
		if err != nil {
			return err
		}
		r.Examples = append(r.Examples, example)
	}
	return nil
}
