package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
)

func newLimits(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "limits",
		Short: "Show the rates and caps that apply to the API key, and what is left of each",
		Args:  cobra.NoArgs,
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, _ []string) error {
			limits, err := s.Client.Limits(ctx)
			if err != nil {
				return err
			}
			if len(limits.Policies) == 0 && len(limits.Caps) == 0 {
				s.Note("No rate and no cap applies to this key.")
			}
			return s.Show(limits, func(t *cli.Table) {
				if len(limits.Policies) > 0 || len(limits.Caps) > 0 {
					ratesAndCaps(t, &limits)
				}
				t.Head("SHARED TIME", "USED")
				t.Row("the gateway's processors", fmt.Sprintf("%.1f %%", 100*limits.SharedTime.Gateway))
				t.Row("database connections", fmt.Sprintf("%.1f %%", 100*limits.SharedTime.Database))
			})
		}),
	}
}

func ratesAndCaps(t *cli.Table, limits *api.LimitsResponse) {
	t.Head("RATE", "PER SECOND", "BURST", "LEFT", "FULL AGAIN IN")
	for _, p := range limits.Policies {
		t.Row(p.Name, p.RatePerSecond, p.Burst, p.Remaining, cli.Milliseconds(p.ResetMS))
	}
	t.Head("CAP", "SCOPE", "LIMIT", "USED")
	for _, c := range limits.Caps {
		t.Row(c.Kind, c.Scope, c.Limit, c.Used)
	}
}

// applyLimits sets limits by their names in the API: NAME=NUMBER, or NAME=none.
func applyLimits(flag string, into *api.Limits, texts []string) error {
	for _, text := range texts {
		name, value, ok := cutLast(text, "=")
		if !ok {
			return cli.Usage("%s%q: must be NAME=NUMBER or NAME=none", flag, text)
		}
		if value == none {
			value = "null"
		}
		// As JSON, so that the names are those of api.Limits.
		document := fmt.Appendf(nil, "{%q:%s}", strings.ReplaceAll(name, "-", "_"), value)
		decoder := json.NewDecoder(bytes.NewReader(document))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(into); err != nil {
			return cli.Usage("%s%q: there is no such limit, or this is no number for it; limits are %s", flag, text, strings.Join(limitNames(), ", "))
		}
	}
	return nil
}

func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}

// limitNames are in the order of the API.
func limitNames() []string {
	var names []string
	for _, one := range new(api.Limits).All() {
		names = append(names, one.Name)
	}
	return names
}

// limitText is the limit as a table shows it.
func limitText(l api.Limit) string {
	if l.Rate != nil {
		return number(*l.Rate)
	}
	return number(*l.Count)
}

// limitsThatAreSet are NAME=NUMBER of the limits that are set.
func limitsThatAreSet(limits *api.Limits, prefix string) (words []string) {
	for _, one := range limits.All() {
		if text := limitText(one); text != none {
			words = append(words, prefix+one.Name+"="+text)
		}
	}
	return words
}
