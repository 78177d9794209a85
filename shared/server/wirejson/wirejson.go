// Package wirejson writes JSON as encoding/json does, faster. What is JSON already, such as a payload, stays as it is, but for
// white space.
package wirejson

import (
	"bytes"
	"encoding/json"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Marshal writes any value. Only U+2028 and U+2029 in strings are not escaped: with EscapeForJS they would be in payloads
// too. <, > and & are not escaped either.
func Marshal(value any) ([]byte, error) { return jsonv2.Marshal(value, asEncodingJSON) }

// Joined once, not for each value.
var asEncodingJSON = jsonv2.JoinOptions(
	jsonv2.FormatNilSliceAsNull(true), jsonv2.FormatNilMapAsNull(true), jsonv2.Deterministic(true),
	jsontext.PreserveRawStrings(true), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// Object writes a JSON object member by member, as Marshal would write a struct, without reflection: for the few that each
// request has. Make it with NewObject. A test compares the text with Marshal's, for every field of the struct.
type Object struct {
	text []byte
	err  error
}

// NewObject begins an object, of about so many bytes.
func NewObject(size int) Object { return Object{text: append(make([]byte, 0, size), '{')} }

// End gives the object's text.
func (o *Object) End() ([]byte, error) {
	o.text = append(o.text, '}')
	return o.text, o.err
}

// Name begins a member; it is one without escapes.
func (o *Object) Name(name string) {
	if last := o.text[len(o.text)-1]; last != '{' {
		o.text = append(o.text, ',')
	}
	o.text = append(append(append(o.text, '"'), name...), `":`...)
}

// Open begins an object as the value of the member whose name was written last; Close ends it.
func (o *Object) Open() { o.text = append(o.text, '{') }

// Close ends what Open began.
func (o *Object) Close() { o.text = append(o.text, '}') }

func (o *Object) quote(value string) {
	text, err := jsontext.AppendQuote(o.text, value)
	if o.text = text; err != nil && o.err == nil {
		o.err = err
	}
}

// null writes null where there is no value.
func (o *Object) null(is bool) bool {
	if is {
		o.text = append(o.text, "null"...)
	}
	return is
}

// String writes a string.
func (o *Object) String(name, value string) {
	o.Name(name)
	o.quote(value)
}

// Optional writes a string, or null.
func (o *Object) Optional(name string, value *string) {
	if o.Name(name); !o.null(value == nil) {
		o.quote(*value)
	}
}

// Strings writes a list of strings; null for nil.
func (o *Object) Strings(name string, values []string) {
	if o.Name(name); o.null(values == nil) {
		return
	}
	o.text = append(o.text, '[')
	for i, value := range values {
		if i > 0 {
			o.text = append(o.text, ',')
		}
		o.quote(value)
	}
	o.text = append(o.text, ']')
}

// Int writes a whole number.
func (o *Object) Int(name string, value int64) {
	o.Name(name)
	o.text = strconv.AppendInt(o.text, value, 10)
}

// Bool writes true or false.
func (o *Object) Bool(name string, value bool) {
	o.Name(name)
	o.text = strconv.AppendBool(o.text, value)
}

// Raw writes what is JSON already, as Marshal writes a json.RawMessage.
func (o *Object) Raw(name string, value json.RawMessage) {
	if o.Name(name); o.null(value == nil) {
		return
	}
	if !bytes.ContainsAny(value, " \t\r\n") {
		o.text = append(o.text, value...)
		return
	}
	o.add(jsontext.AppendFormat(nil, value, jsontext.PreserveRawStrings(true), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)))
}

// Text writes the text of a value that marshals itself.
func (o *Object) Text(name string, value json.Marshaler) {
	o.Name(name)
	o.add(value.MarshalJSON())
}

// Any writes any value.
func (o *Object) Any(name string, value any) {
	o.Name(name)
	o.add(Marshal(value))
}

// Or writes a value that is rarely there: instead of it text, where it is not.
func (o *Object) Or(name string, isNot bool, text string, value any) {
	if isNot {
		o.Name(name)
		o.text = append(o.text, text...)
		return
	}
	o.Any(name, value)
}

// List writes a list of objects, each by write.
func (o *Object) List(name string, n int, write func(i int)) {
	o.Name(name)
	o.text = append(o.text, '[')
	for i := range n {
		if i > 0 {
			o.text = append(o.text, ',')
		}
		o.Open()
		write(i)
		o.Close()
	}
	o.text = append(o.text, ']')
}

func (o *Object) add(text []byte, err error) {
	if o.text = append(o.text, text...); err != nil && o.err == nil {
		o.err = err
	}
}
