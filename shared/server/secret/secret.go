// Package secret keeps settings out of logs, errors and dumps by their type.
package secret

import "log/slog"

// Text is a setting that nothing shows by accident: it prints as a mark. Reveal
// gives the text itself.
type Text string

const hidden = "[hidden]"

// Reveal gives the secret itself.
func (t Text) Reveal() string { return string(t) }

// String hides the secret from %v and %s; an empty one is shown to be empty.
func (t Text) String() string {
	if t == "" {
		return ""
	}
	return hidden
}

// GoString hides the secret from %#v.
func (t Text) GoString() string { return `secret.Text("` + t.String() + `")` }

// MarshalText hides the secret from JSON and everything else that asks for text.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// LogValue hides the secret from slog.
func (t Text) LogValue() slog.Value { return slog.StringValue(t.String()) }
