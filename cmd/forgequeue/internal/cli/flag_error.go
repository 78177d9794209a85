package cli

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagError says what a flag's value must be, in the place of what Go's parsers say.
func flagError(_ *cobra.Command, err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	flag := invalid.GetFlag()
	want := map[string]string{
		"int": "a whole number", "int32": "a whole number", "int64": "a whole number", "uint": "a whole number, 0 or more",
		"float64": "a number", "bool": "true or false", "duration": "a duration with its unit, such as 500ms, 90s or 2h",
	}[flag.Value.Type()]
	switch {
	case errors.Is(err, strconv.ErrRange):
		return Usage("--%s %q: is out of range", flag.Name, invalid.GetValue())
	case errors.Is(err, ErrTooShort):
		return Usage("--%s %q: %w", flag.Name, invalid.GetValue(), ErrTooShort)
	case want == "":
		return Usage("--%s %q: %w", flag.Name, invalid.GetValue(), errors.Unwrap(invalid))
	}
	return Usage("--%s %q: must be %s", flag.Name, invalid.GetValue(), want)
}
