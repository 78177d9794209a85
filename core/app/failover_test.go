package app_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/core/app"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/secret"
)

// The old primary is compared with the cell that it was, and with nothing else.
func TestAnOldPrimaryIsACell(t *testing.T) {
	t.Parallel()
	in, others := newInstallation(t, "first", "second"), newInstallation(t, "first", "second")
	core := start(t, in.config())
	for cell, owner := range in.tenantsIn(core.at("first")) {
		request, _ := jobOf()
		must[api.SubmitResponse](core.at(in.names[cell]), hop.SubmitJobs.Path, owner, request)
	}
	alone := celltest.URL(t)
	for name, one := range map[string]struct {
		cfg  app.Config
		old  string
		says string // "" for a comparison that finds nothing
	}{
		"none":                    {in.config(), "", app.ErrNoOldPrimary.Error()},
		"the home cell":           {in.config(), in.urls[0], ""},
		"another cell":            {in.config(), in.urls[1], ""},
		"the only database":       {config(t, alone), alone, ""},
		"no cell":                 {in.config(), alone, "is no cell of this installation"},
		"a cell without the file": {config(t, in.urls[0]), in.urls[1], "set FORGEQUEUE_CELLS"},
		"another installation's":  {in.config(), others.urls[1], "of another installation"},
		"one that is away":        {in.config(), "postgres://forgequeue@127.0.0.1:1/none?connect_timeout=2", "the old primary: "},
	} {
		one.cfg.OldDatabaseURL = secret.Text(one.old)
		err := app.AfterFailover(t.Context(), one.cfg, app.FailoverWindow, func(line string) { t.Errorf("%s: %s", name, line) })
		if (err == nil) != (one.says == "") || err != nil && !strings.Contains(err.Error(), one.says) {
			t.Errorf("%s: %v, want %q", name, err, one.says)
		}
	}
	var text strings.Builder
	if found, err := app.WriteVerified(t.Context(), in.config(), app.FailoverWindow, &text); !errors.Is(err, app.ErrNoOldPrimary) || found != 0 || text.String() != "drift: 0\n" {
		t.Errorf("%d lines, %v: %q", found, err, text.String())
	}
}
