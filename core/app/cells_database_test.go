package app_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/app"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/diagnosis"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/secret"
)

// A database that is not the cell that the file says is refused at the start.
func TestWhichCellADatabaseIs(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, "first", "second", "third")
	other := newInstallation(t, "first", "second")
	core := start(t, in.config())
	in.tenantsIn(core.at("first"))
	if err := core.end(); err != nil {
		t.Fatal(err)
	}
	refused := func(says string, cfg app.Config) {
		t.Helper()
		if err := app.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	in.write(func(entries []map[string]any) {
		entries[1]["dsn"], entries[2]["dsn"] = entries[2]["dsn"], entries[1]["dsn"]
	})
	refused("swapped", in.config())
	in.write(func(entries []map[string]any) { entries[1]["dsn"] = other.urls[1] })
	refused("another installation", in.config())
	if _, err := app.Migrate(t.Context(), in.config()); err == nil || !strings.Contains(err.Error(), "another installation") {
		t.Errorf("migrate: %v", err)
	}
	in.write(func(entries []map[string]any) { entries[1]["dsn"] = celltest.URL(t) })
	refused("core migrate", in.config())
	in.write(nil)
	refused("FORGEQUEUE_CELLS", config(t, in.urls[0]))
	refused("FORGEQUEUE_CELLS", config(t, in.urls[1]))
	refused("home cell", func() app.Config {
		cfg := in.config()
		cfg.DatabaseURL = secret.Text(in.urls[1])
		in.write(func(entries []map[string]any) {
			entries[0]["name"], entries[1]["name"], entries[1]["dsn"] = "second", "first", in.urls[0]
		})
		return cfg
	}())
}

// A core that was started without the file before there were other cells stores nothing for their tenants.
func TestACoreWithoutTheFile(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, "first", "second")
	alone := start(t, config(t, in.urls[0]))
	tenants := in.tenantsIn(start(t, in.config()).at("first"))
	for cell, owner := range tenants {
		request, id := jobOf()
		answer := askOr[json.RawMessage](alone, hop.SubmitJobs.Path, owner, request)
		if refused := answer.Status == http.StatusServiceUnavailable; refused != (cell != 0) {
			t.Errorf("cell %d: %+v", cell, answer)
		}
		if n := in.count(0, `SELECT count(*) FROM jobs WHERE id = $1`, id); (n == 1) != (cell == 0) {
			t.Errorf("cell %d: %d jobs in the home cell", cell, n)
		}
	}
}

func TestCellsAreListed(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, "first", "second")
	both := start(t, in.config())
	tenants := in.tenantsIn(both.at("first"))
	core := both.at("second")
	request, _ := jobOf()
	must[api.SubmitResponse](core, hop.SubmitJobs.Path, tenants[1], request)
	listed, err := app.Cells(t.Context(), in.cfg)
	if err != nil || len(listed) != 2 {
		t.Fatalf("%+v, %v", listed, err)
	}
	for i, one := range listed {
		if one.Name != in.names[i] || one.Tenants != 1 || one.Jobs != int64(i) || one.Bytes == 0 || one.Problem != "" || one.Weight != 1 || !one.AcceptsNew {
			t.Errorf("%+v", one)
		}
	}
	ended := must[api.ClaimResponse](core, hop.ClaimJobs.Path, tenants[1], claimOf("w", 20*time.Second))
	if len(ended.Jobs) != 1 {
		t.Fatalf("%+v", ended)
	}
	celltest.Eventually(t, "the attempt to be counted", func() bool {
		listed, err = app.Cells(t.Context(), in.cfg)
		return err == nil && listed[0].Started == 0 && listed[1].Started == 1
	})
	var shares strings.Builder
	if err := app.WriteCells(&shares, listed); err != nil || strings.Count(shares.String(), "1 (50 %)") != 4 || strings.Count(shares.String(), "1 (100 %)") != 2 || strings.Count(shares.String(), "0 (0 %)") != 2 {
		t.Errorf("%s, %v", shares.String(), err)
	}
	in.write(func(entries []map[string]any) {
		entries[1]["dsn"], entries[1]["accepts_new"] = "postgres://u:hunter2@127.0.0.1:1/x", false
	})
	if listed, err = app.Cells(t.Context(), in.cfg); err != nil || listed[1].Problem == "" || listed[0].Problem != "" {
		t.Fatalf("%+v, %v", listed, err)
	}
	var text strings.Builder
	if err := app.WriteCells(&text, listed); err != nil || !strings.Contains(text.String(), "second") || strings.Contains(text.String(), "hunter2") {
		t.Errorf("%s, %v", text.String(), err)
	}
	if _, err := app.Cells(t.Context(), config(t, in.urls[0])); err == nil || !strings.Contains(err.Error(), "FORGEQUEUE_CELLS") {
		t.Errorf("one database: %v", err)
	}
}

func TestDiagnoseCells(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, "first", "second")
	diagnose := func() diagnosis.Diagnosis {
		return app.Diagnose(t.Context(), map[string]string{"DATABASE_URL": in.urls[0], "FORGEQUEUE_CELLS": in.file})
	}
	for _, f := range diagnose().Findings {
		if f.Level == diagnosis.LevelFail {
			t.Errorf("%+v", f)
		}
	}
	for says, change := range map[string]func([]map[string]any){
		"cell second: PostgreSQL":       func(entries []map[string]any) { entries[1]["dsn"] = "postgres://u:hunter2@127.0.0.1:1/x" },
		"cell second: which cell it is": func(entries []map[string]any) { entries[1]["name"], entries[1]["dsn"] = "second", celltest.URL(t) },
		"cell second: migrations":       func(entries []map[string]any) { entries[1]["dsn"] = celltest.EmptyURL(t) },
		"which cell it is":              func(entries []map[string]any) { entries[0]["name"] = "another" },
		"PostgreSQL settings":           func(entries []map[string]any) { entries[1]["weight"] = 0 },
	} {
		in.write(change)
		found := false
		for _, f := range diagnose().Findings {
			found = found || f.Check == says && f.Level == diagnosis.LevelFail && f.Advice != ""
			if strings.Contains(f.Detail, "hunter2") {
				t.Errorf("%+v", f)
			}
		}
		if !found {
			t.Errorf("%s: %+v", says, diagnose().Findings)
		}
	}
}

// A tenant may be made in a cell that takes none by itself.
func TestTheCellOfANewTenant(t *testing.T) {
	t.Parallel()
	in := newInstallation(t, "first", "second")
	in.write(func(entries []map[string]any) { entries[1]["accepts_new"] = false })
	core := start(t, in.config()).at("first")
	create := func(cell *string) hop.Result[api.Tenant] {
		return ask[api.Tenant](core, hop.CreateTenant.Path, operator, hop.WithID[api.TenantRequest]{
			ID: uuid.Must(uuid.NewV7()).String(), Value: api.TenantRequest{Name: "t", Cell: cell},
		})
	}
	for range 3 {
		if got := create(nil); got.Value == nil || got.Value.Cell != "first" {
			t.Fatalf("%+v", got)
		}
	}
	named := create(new("second"))
	if named.Value == nil || named.Value.Cell != "second" {
		t.Fatalf("%+v", named)
	}
	if got := must[api.Tenant](core, hop.GetTenant.Path, operator, hop.ID{ID: named.Value.ID}); got.Cell != "second" {
		t.Errorf("%+v", got)
	}
	if got := create(new("absent")); got.Problem == nil || got.Problem.Code != problem.InvalidRequest {
		t.Errorf("%+v", got)
	}
	if listed := must[api.Page[api.Tenant]](core, hop.ListTenants.Path, operator, hop.PageRequest{PageSize: 10}); len(listed.Items) != 4 || listed.Items[3].Cell != "first" {
		t.Errorf("%+v", listed)
	}
	alone := start(t, config(t, celltest.URL(t)))
	if got := ask[api.Tenant](alone, hop.CreateTenant.Path, operator, hop.WithID[api.TenantRequest]{
		ID: uuid.Must(uuid.NewV7()).String(), Value: api.TenantRequest{Name: "t", Cell: new("first")},
	}); got.Problem == nil || got.Problem.Code != problem.InvalidRequest {
		t.Errorf("one database: %+v", got)
	}
}
