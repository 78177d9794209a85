package cli

import (
	"errors"
	"time"

	"github.com/spf13/pflag"
)

// ErrTooShort is for a duration that would be sent as 0.
var ErrTooShort = errors.New("must be 0, or a millisecond or more")

// ParseDuration is time.ParseDuration for what is sent in milliseconds.
func ParseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil && d != 0 && d.Abs() < time.Millisecond {
		err = ErrTooShort
	}
	return d, err
}

// duration is the value of a flag that takes a duration.
type duration struct{ pflag.Value }

func (d duration) Set(text string) error {
	if _, err := ParseDuration(text); errors.Is(err, ErrTooShort) {
		return err
	}
	return d.Value.Set(text)
}

// checkDurations makes flags of durations refuse what is too short.
func checkDurations(flags *pflag.FlagSet) {
	flags.VisitAll(func(flag *pflag.Flag) {
		if _, done := flag.Value.(duration); !done && flag.Value.Type() == "duration" {
			flag.Value = duration{flag.Value}
			if flag.DefValue == "0s" { // none: the help does not show it
				flag.DefValue = ""
			}
		}
	})
}
