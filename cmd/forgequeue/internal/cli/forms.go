package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// form is a form of results, the value of -o.
type form string

const (
	formTable form = "table"
	formJSON  form = "json"
	// formLines is one JSON value on a line: each item of a list, or the whole of what is no list.
	formLines form = "jsonl"
	// formName is what other commands take as their argument, one on a line.
	formName form = "name"
)

func forms() []string {
	return []string{string(formTable), string(formJSON), string(formLines), string(formName)}
}

func (f *form) String() string { return string(*f) }
func (*form) Type() string     { return strings.Join(forms(), "|") }

func (f *form) Set(text string) error {
	if !slices.Contains(forms(), text) {
		return fmt.Errorf("must be one of %s", strings.Join(forms(), ", "))
	}
	*f = form(text)
	return nil
}

// OutputFlag adds -o to a command and its subcommands.
func OutputFlag(command *cobra.Command) {
	chosen := formTable
	command.PersistentFlags().VarP(&chosen, "output", "o", "table; json in the API's own shapes; jsonl, a line for each item; name, only ids or names")
	// It fails only for a flag that is not there.
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(forms(), cobra.ShellCompDirectiveNoFileComp))
}

// WriteJSON writes a value in the form that is wanted, of those for programs. An indent of "" is one line. It leaves
// <, > and & as they are, so that what it writes can be sent again.
func (s *Screen) WriteJSON(value any, indent string) error {
	if s.Streams() {
		return s.writeLines(value)
	}
	text, err := plainJSON(value, indent)
	if err == nil {
		_, err = s.Out.Write(text)
	}
	return err
}

// Streams reports whether results are wanted a line for each item, so that they can be written as they come.
func (s *Screen) Streams() bool { return s.form == formLines || s.form == formName }

// NoNames refuses -o name before anything is done, for a command whose answer must not be lost.
func (s *Screen) NoNames(why string) error {
	if s.form == formName {
		return Usage("-o name: %s; use -o table, json or jsonl", why)
	}
	return nil
}

// writeLines writes each item of a list, or the whole of what is none, on a line: as JSON, or only its name.
func (s *Screen) writeLines(value any) error {
	text, err := plainJSON(value, "")
	if err != nil {
		return err
	}
	for _, item := range itemsOf(text) {
		line := bytes.TrimSpace(item)
		if s.form == formName {
			name, ok := nameOf(item)
			if !ok {
				return Usage("-o name: what this command shows has neither an id nor a name; use -o table, json or jsonl")
			}
			line = []byte(Visible(name))
		}
		if len(line) > 0 {
			if _, err := fmt.Fprintf(s.Out, "%s\n", line); err != nil {
				return err
			}
		}
	}
	return nil
}

func plainJSON(value any, indent string) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	err := encoder.Encode(value)
	return text.Bytes(), err
}

// itemsOf gives the items of a list in the API's shapes, or the value itself.
func itemsOf(text json.RawMessage) []json.RawMessage {
	var list struct {
		Items   *[]json.RawMessage `json:"items"`
		Results *[]json.RawMessage `json:"results"`
	}
	if err := json.Unmarshal(text, &list); err == nil {
		switch {
		case list.Items != nil:
			return *list.Items
		case list.Results != nil:
			return *list.Results
		}
	}
	return []json.RawMessage{text}
}

// nameOf gives what names a value, "" where that is null; false if it has nothing of the kind.
func nameOf(text json.RawMessage) (string, bool) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return "", false
	}
	for _, field := range []string{"id", "job_id", "worker_id", "key_id", "name"} {
		if value, ok := fields[field]; ok {
			var name string
			return name, json.Unmarshal(value, &name) == nil
		}
	}
	if job, ok := fields["job"]; ok { // of a dead letter
		return nameOf(job)
	}
	return "", false
}
