package answers

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// JSON writes what encoding/json would, and faster; the gateway passes it on. Only U+2028 and U+2029 in strings are not
// escaped: with EscapeForJS they would be in payloads too.
func JSON(value any) ([]byte, error) { return json.Marshal(value, asEncodingJSON) }

// Joined once, not for each value.
var asEncodingJSON = json.JoinOptions(
	json.FormatNilSliceAsNull(true), json.FormatNilMapAsNull(true), json.Deterministic(true),
	jsontext.PreserveRawStrings(true), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
