package cli

import (
	"slices"
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
)

func TestWindowsAreReadAsTheyAreShown(t *testing.T) {
	t.Parallel()
	texts := []string{"0 22 * * * 8h Europe/Berlin", "*/5 * * * 1-5 1m30s", "@daily 30m"}
	want := []api.Window{
		{Cron: "0 22 * * *", DurationMS: 8 * 3600_000, Timezone: "Europe/Berlin"}, {Cron: "*/5 * * * 1-5", DurationMS: 90_000}, {Cron: "@daily", DurationMS: 1800_000},
	}
	got, err := Windows("window", texts)
	if err != nil || !slices.Equal(got, want) || !slices.Equal(WindowTexts(got), texts) {
		t.Errorf("%+v %v %q", got, err, WindowTexts(got))
	}
	for _, text := range []string{"", "8h", "0 22 * * *", "0 22 * * * Europe/Berlin", "0 22 * * * 8 UTC"} {
		if got, err := Windows("window", []string{text}); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
