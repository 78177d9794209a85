package forms

import (
	"crypto/sha256"
	"encoding/base64"
)

// Field is an input of a form, with the value in force in words.
type Field struct {
	Name, Label, Value, Now string
	Options                 []string
	// Help says what the input means; empty where its label does.
	Help string
	// Text says that the value is no number.
	Text bool
	// Rows is how many lines its input has; 0 for one without lines.
	Rows int
	// Wrong says why the value was refused; empty if it was not.
	Wrong string
	// Newer says that the value in force is another one than the form had shown.
	Newer bool
}

// Same says that the value in force is in the input, in the same words.
func (f Field) Same() bool { return f.Now == f.Value || f.Now == f.Value+"\u00a0s" }

// Shown names the value in force, in a form that shows it: what comes back with it tells whether it was edited, and whether
// another value is in force by then.
func (f Field) Shown() string { return nameOf(f.Now) }

func nameOf(text string) string {
	const enough = 12 // bytes
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:enough])
}

// Entered gives the field what was typed in a form that had shown it before. What was not edited follows the value in force.
func (f *Reader) Entered(field *Field) {
	given, shown := f.Values.Get(field.Name), f.Values.Get("shown-"+field.Name)
	field.Newer = shown != "" && shown != field.Shown()
	if f.Values.Has(field.Name) && nameOf(given) != shown {
		field.Value = given
	}
}
