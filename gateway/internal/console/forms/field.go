package forms

// Field is an input of a form, with the value in force in words.
type Field struct {
	Name, Label, Value, Now string
	Options                 []string
	// Help says what the input means; empty where its label does.
	Help string
	// Text says that the value is no number.
	Text bool
}

// Same says that the value in force is in the input, in the same words.
func (f Field) Same() bool { return f.Now == f.Value || f.Now == f.Value+"\u00a0s" }
