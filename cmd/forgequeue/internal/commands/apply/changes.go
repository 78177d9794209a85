package apply

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// What becomes of an object.
const (
	create    = "create"
	update    = "change"
	removal   = "delete"
	leftAlone = "keep"
)

// change is an object that differs.
type change struct {
	Action string `json:"action"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	// Fields are those that differ of an object that is changed.
	Fields []field `json:"fields"`
	// Done says that the change was made. Error says why it was not; both are as they are where nothing was tried.
	Done  bool    `json:"done"`
	Error *string `json:"error"`
	// Secret is a new one that is shown nowhere else.
	Secret *string `json:"secret,omitzero"`

	kind      *kind
	to, there settings
	place     place
}

// run is one run of apply.
type run struct {
	options
	file    *file
	kinds   []*kind
	clients map[bool]*client.Client
	screen  *cli.Session
	changes []*change
	secrets *os.File
}

func (r *run) run(ctx context.Context, s *cli.Session) error {
	r.screen = s
	s.JSON = s.JSON || r.js
	if err := r.compare(ctx); err != nil {
		return err
	}
	r.show()
	switch {
	case r.dryRun && r.differ() > 0:
		return r.end(cli.ErrDiffers)
	case r.dryRun || r.differ() == 0:
		return r.end(nil)
	}
	if r.options.secrets != "" {
		to, err := os.OpenFile(r.options.secrets, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err == nil {
			err = to.Chmod(0o600)
		}
		if err != nil {
			return cli.Usage("--secrets: %w", err)
		}
		r.secrets = to
	} else if err := s.NoNames("it would not show the secrets of new webhooks, which are never shown again"); err != nil {
		return err
	}
	err := r.make(ctx)
	if r.secrets != nil {
		if closed := r.secrets.Close(); err == nil {
			err = closed
		}
	}
	return r.end(err)
}

// differ is how many objects are to be changed.
func (r *run) differ() (n int) {
	for _, c := range r.changes {
		if c.Action != leftAlone {
			n++
		}
	}
	return n
}

// compare finds what differs, in the order in which it is changed.
func (r *run) compare(ctx context.Context) error {
	var removals []*change
	types := map[string]settings{}
	schedules := slices.ContainsFunc(r.kinds, func(k *kind) bool { return k.noun == "schedule" && len(r.file.objects[k]) > 0 })
	for _, k := range r.kinds {
		declared := r.file.objects[k]
		if len(declared) == 0 && !r.prune && (k.noun != "type" || !schedules) {
			continue
		}
		label := ""
		if r.prune {
			label = r.file.label
		}
		there, err := k.list(ctx, r.clients[k.operator], func(name string) bool { _, is := declared[name]; return is }, label)
		if err != nil {
			return fmt.Errorf("%s: %w", k.section, err)
		}
		if k.noun == "type" {
			maps.Copy(types, there)
		}
		for _, name := range slices.Sorted(maps.Keys(declared)) {
			one := declared[name]
			switch k.noun {
			case "type":
				types[name] = one.settings
			case "schedule":
				one.settings = withTypeDefaults(one.settings, types)
			}
			made := &change{Action: create, Kind: k.noun, Name: name, Fields: []field{}, kind: k, to: one.settings, place: one.place}
			if before, exists := there[name]; exists {
				made.Action, made.there, made.Fields = update, before, differences("", before.tree, one.settings.tree)
			}
			if made.Action == create || len(made.Fields) > 0 {
				r.changes = append(r.changes, made)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(there)) {
			if _, is := declared[name]; is || !r.prune || there[name].label() != r.file.label {
				continue
			}
			made := &change{Action: removal, Kind: k.noun, Name: name, Fields: []field{}, kind: k, there: there[name]}
			if k.noun == "tenant" && !r.tenants {
				made.Action = leftAlone
			}
			removals = append(removals, made)
		}
	}
	slices.Reverse(removals)
	r.changes = append(r.changes, removals...)
	return nil
}

// show writes the differences, one on a line.
func (r *run) show() {
	s := r.screen
	if s.JSON {
		return // they are written at the end
	}
	line := func(colour cli.Colour, text string) { fmt.Fprintln(s.Out, s.Paint(colour, cli.Visible(text))) }
	for _, c := range r.changes {
		what := c.Kind + " " + c.Name
		switch c.Action {
		case create:
			line(cli.Green, "+ "+what)
		case removal:
			line(cli.Red, "- "+what)
		case leftAlone:
			s.Note("%s is not in the file and stays: --prune-tenants deletes it with all of its data", what)
		}
		for i := range c.Fields {
			line(cli.Yellow, "~ "+what+": "+c.Fields[i].String())
		}
	}
}

// make makes the changes. One that the server refuses is reported, and the rest is made; nothing is deleted then, since what
// should take its place may be missing.
func (r *run) make(ctx context.Context) error {
	refused := 0
	for _, c := range r.changes {
		if c.Action == leftAlone {
			continue
		}
		if c.Action == removal && refused > 0 && !r.removing() {
			r.screen.Note("Nothing is deleted, since not all changes were made.")
			break
		}
		err := r.one(ctx, c)
		if p, ok := problem.From(err); ok && p.Status >= 400 && p.Status < 500 && p.Status != http.StatusUnauthorized {
			refused++
			r.report(c, p)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", c.Kind, c.Name, err)
		}
		c.Done = true
	}
	if refused > 0 {
		return cli.ErrReported
	}
	return nil
}

// removing says that a deletion was tried.
func (r *run) removing() bool {
	return slices.ContainsFunc(r.changes, func(c *change) bool { return c.Action == removal && (c.Done || c.Error != nil) })
}

// one makes a change.
func (r *run) one(ctx context.Context, c *change) error {
	to := r.clients[c.kind.operator]
	if c.Action == removal {
		if c.kind.remove == nil {
			return problem.New(problem.InvalidRequest, "A "+c.Kind+" cannot be deleted. Take the label off it, or put it back into the file.")
		}
		err := c.kind.remove(ctx, to, c.Name, c.there)
		if cli.IsNotFound(err) { // deleted meanwhile, or an answer was lost
			err = nil
		}
		return err
	}
	secret, err := c.kind.put(ctx, to, c.Name, c.to, c.there)
	switch {
	case err != nil:
		return err
	case secret != nil && r.secrets != nil:
		_, err = fmt.Fprintf(r.secrets, "%s %s %s\n", c.Kind, c.Name, *secret)
	case secret != nil && r.screen.JSON:
		c.Secret = secret
	case secret != nil:
		_, err = fmt.Fprintf(r.screen.Out, "secret of %s %s, which is not shown again: %s\n", c.Kind, c.Name, *secret)
	case c.newSecret():
		again := "forgequeue webhook rotate-secret " + c.Name
		if c.Kind == "queue" {
			again = "forgequeue queue set " + c.Name + " --new-push-secret"
		}
		r.screen.Note("The answer with the secret of the %s %s was lost: %s makes another one.", c.Kind, c.Name, again)
	}
	return err
}

// newSecret says that the server makes a secret, which it shows once.
func (c *change) newSecret() bool {
	switch to := c.to.request.(type) {
	case api.WebhookRequest:
		return c.Action == create
	case api.QueueRequest:
		before, _ := c.there.request.(api.QueueRequest)
		return to.Push != nil && to.Push.Secret == nil && !api.IsBrokerURL(to.Push.URL) && before.Push == nil
	}
	return false
}

// report says why the server refused a change, with the lines of the fields.
func (r *run) report(c *change, p *problem.Problem) {
	c.Error = &p.Detail
	at := func(line int) string {
		if line == 0 { // it is not in the file
			return r.file.name
		}
		return fmt.Sprintf("%s:%d", r.file.name, line)
	}
	if len(p.Errors) == 0 {
		r.screen.Note("%s: %s %s: %s (%s)", at(c.place.line), c.Kind, c.Name, p.Detail, p.Code)
	}
	for _, one := range p.Errors {
		r.screen.Note("%s: %s %s: %s: %s (%s)", at(c.place.of(one.Field)), c.Kind, c.Name, one.Field, one.Message, p.Code)
	}
}

// end writes the result: what was done.
func (r *run) end(err error) error {
	s := r.screen
	if s.JSON {
		if written := s.WriteJSON(map[string]any{"items": slices.Concat([]*change{}, r.changes)}, "  "); written != nil {
			return written
		}
		return err
	}
	done := 0
	for _, c := range r.changes {
		if c.Done {
			done++
		}
	}
	switch {
	case r.differ() == 0:
		s.Note("No changes: everything is as in the file.")
	case r.dryRun:
		s.Note("%d objects differ; nothing was changed.", r.differ())
	default:
		s.Note("%d of %d objects changed.", done, r.differ())
	}
	return err
}
