package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Given is a flag's value, or nil if the flag is not set.
func Given[T any](command *cobra.Command, flag string, value T) *T {
	if !command.Flags().Changed(flag) {
		return nil
	}
	return &value
}

// GivenMS is a flag's value in milliseconds, or nil if the flag is not set.
func GivenMS(command *cobra.Command, flag string, value time.Duration) *int64 {
	return Given(command, flag, value.Milliseconds())
}

// noEmptyFilter refuses an empty name, which would be no filter at all.
func noEmptyFilter(command *cobra.Command) (err error) {
	command.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "queue", "type", "user", "tag", "dedupe-key", "fingerprint", "reason", "tenant":
			if f.Value.String() == "" && f.Value.Type() == "string" {
				err = Usage("--%s must not be empty", f.Name)
			}
		}
	})
	return err
}

// Instant is the value of a flag that takes a time: RFC 3339, a day of UTC, or a duration from now, by this machine's clock.
type Instant struct {
	// At is nil if the flag is not set.
	At *api.Time
	// Back makes a duration count into the past.
	Back bool
}

// Type names the value in the help.
func (*Instant) Type() string { return "time" }

func (i *Instant) String() string {
	if i.At == nil {
		return ""
	}
	return i.At.UTC().Format(time.RFC3339Nano)
}

// Day is the day of UTC, such as 2026-11-20; "" if the flag is not set.
func (i *Instant) Day() string {
	if i.At == nil {
		return ""
	}
	return i.At.UTC().Format(time.DateOnly)
}

// Set reads the flag's text.
func (i *Instant) Set(text string) error {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		i.At = &api.Time{Time: at}
		return nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		i.At = &api.Time{Time: day}
		return nil
	}
	distance, err := time.ParseDuration(text)
	if err != nil || distance < 0 {
		return fmt.Errorf("must be a time such as 2026-11-20T12:00:00Z, a day such as 2026-11-20, or a duration such as 90m")
	}
	if i.Back {
		distance = -distance
	}
	i.At = &api.Time{Time: time.Now().Add(distance)}
	return nil
}
