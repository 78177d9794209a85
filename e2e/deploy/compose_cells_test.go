package deploy_test

import (
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"

	coreapp "github.com/forgequeue/forgequeue/core/app"
)

// withCells is the Compose file with its overlay for a second cell.
func withCells(t *testing.T) *types.Project {
	t.Helper()
	return withOverlay(t, "docker-compose.cells.yml")
}

func withOverlay(t *testing.T, overlay string) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions(
		[]string{filepath.Join(top, "docker-compose.yml"), filepath.Join(top, overlay)},
		cli.WithEnv([]string{"FORGEQUEUE_UID=1000", "FORGEQUEUE_GID=1000"}), cli.WithProfiles([]string{profile}),
	)
	if err != nil {
		t.Fatal(err)
	}
	p, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The overlay adds one PostgreSQL, which is as the first but for its data and passwords, and a core for it, which is as the
// first but for the cell that it serves. What the other tests hold the Compose file to therefore holds with the overlay too.
func TestComposeCellsAddADatabaseAlone(t *testing.T) {
	t.Parallel()
	plain, p := project(t), withCells(t)
	second := p.Services["postgres-second"]
	if len(second.Volumes) != 1 || second.Volumes[0].Source != "postgres-second" || p.Volumes["postgres-second"].Name == "" {
		t.Errorf("its data is in %v", second.Volumes)
	}
	given := map[string]string{}
	for _, secret := range second.Secrets {
		given[strings.TrimPrefix(secret.Target, "/run/secrets/")] = secret.Source
	}
	if want := map[string]string{"postgres_password": "second_postgres_password", "core_password": "second_core_password"}; !maps.Equal(given, want) {
		t.Errorf("its secrets are %v, want %v", given, want)
	}
	first := plain.Services["postgres"]
	second.Name, second.Secrets = first.Name, first.Secrets
	second.Volumes = slices.Clone(second.Volumes)
	second.Volumes[0].Source = first.Volumes[0].Source
	same(t, "postgres-second", second, first)
	for cell, name := range map[string]string{"first": "core", "second": "core-second"} {
		if got := settings(p.Services[name])["FORGEQUEUE_SERVE_CELLS"]; got != cell {
			t.Errorf("%s serves %q", name, got)
		}
		delete(p.Services[name].Environment, "FORGEQUEUE_SERVE_CELLS")
	}
	servedBy(t, p, map[string]string{"first": "core", "second": "core-second"})
	for _, name := range []string{"core", "core-second", "migrate"} {
		service := p.Services[name]
		if file := settings(service)["FORGEQUEUE_CELLS"]; file != "/run/secrets/cells" {
			t.Errorf("%s: its file of cells is %q", name, file)
		}
		if needed := service.DependsOn["postgres-second"]; name != "core" && needed.Condition != types.ServiceConditionHealthy {
			t.Errorf("%s needs the second database to be %q", name, needed.Condition)
		}
		was := len(service.Secrets)
		service.Secrets = slices.DeleteFunc(slices.Clone(service.Secrets), func(s types.ServiceSecretConfig) bool { return s.Source == "cells" })
		if len(service.Secrets) != was-1 {
			t.Errorf("%s has not the file of cells: %v", name, service.Secrets)
		}
		delete(service.Environment, "FORGEQUEUE_CELLS")
		delete(service.DependsOn, "postgres-second")
		p.Services[name] = service
	}
	another := p.Services["core-second"]
	if home := settings(another)["FORGEQUEUE_HOME_URL"]; home != "http://core:8081/cells/first" {
		t.Errorf("the second cell's core follows %q", home)
	}
	delete(another.Environment, "FORGEQUEUE_HOME_URL")
	another.Name = "core"
	same(t, "core-second", another, plain.Services["core"])
	delete(p.Services, "core-second")
	delete(p.Services, "postgres-second")
	if got, want := slices.Sorted(maps.Keys(p.Services)), slices.Sorted(maps.Keys(plain.Services)); !slices.Equal(got, want) {
		t.Fatalf("besides the second database there are %v, want %v", got, want)
	}
	for name, service := range p.Services {
		same(t, name, service, plain.Services[name])
	}
	if !reflect.DeepEqual(p.Networks, plain.Networks) {
		t.Errorf("networks %v, want %v", p.Networks, plain.Networks)
	}
}

// servedBy: the gateway calls the core that serves each cell, and waits for the second one. What it then has is as in a plain
// installation.
func servedBy(t *testing.T, p *types.Project, cells map[string]string) {
	t.Helper()
	gateway := p.Services["gateway"]
	called := map[string]string{}
	for entry := range strings.SplitSeq(settings(gateway)["FORGEQUEUE_CORE_URL"], ",") {
		name, at, _ := strings.Cut(entry, "=")
		core, path, _ := strings.Cut(strings.TrimPrefix(at, "http://"), ":8081/cells/")
		if path != name {
			t.Errorf("the gateway calls %s for the cell %s", at, name)
		}
		called[name] = core
	}
	if !maps.Equal(called, cells) {
		t.Errorf("the gateway calls %v, want %v", called, cells)
	}
	if gateway.DependsOn["core-second"].Condition != types.ServiceConditionHealthy {
		t.Error("the gateway does not wait for the second core")
	}
	delete(gateway.DependsOn, "core-second")
	plain := "http://core:8081"
	gateway.Environment["FORGEQUEUE_CORE_URL"] = &plain
}

// same says in which fields a service is not as another one.
func same(t *testing.T, name string, got, want types.ServiceConfig) {
	t.Helper()
	is, should := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range is.NumField() {
		if a, b := is.Field(i).Interface(), should.Field(i).Interface(); !reflect.DeepEqual(a, b) {
			t.Errorf("%s: %s is %+v, want %+v", name, is.Type().Field(i).Name, a, b)
		}
	}
}

// What .ci/secrets makes is what the overlay asks for. With it core's configuration is complete, and the second cell is
// the database of the overlay, with that one's password.
func TestComposeCellsSecrets(t *testing.T) {
	t.Parallel()
	p := withCells(t)
	made, core := secretsOf(t, p)
	if _, err := coreapp.Parse(core); err != nil {
		t.Errorf("core does not start: %v", err)
	}
	var cells []struct{ Name, DSN string }
	if err := json.Unmarshal([]byte(made["cells"]), &cells); err != nil || len(cells) != 2 {
		t.Fatalf("the file of cells: %v %v", len(cells), err)
	}
	for i, want := range []struct{ host, password string }{{"postgres", made["core_password"]}, {"postgres-second", made["second_core_password"]}} {
		dsn := []string{made["database_url"], cells[1].DSN}[i]
		at, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		if password, _ := at.User.Password(); at.Hostname() != want.host || password != want.password || at.User.Username() != "forgequeue_core" {
			t.Errorf("the database %d is not that of %s", i, want.host)
		}
	}
	if made["core_password"] == made["second_core_password"] || made["postgres_password"] == made["second_postgres_password"] {
		t.Error("two databases have one password")
	}
}

// secretsOf gives what .ci/secrets makes, by file, and core's settings with it.
func secretsOf(t *testing.T, p *types.Project) (made, core map[string]string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".ci"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".ci", "secrets"), []byte(read(t, ".ci/secrets")), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.CommandContext(t.Context(), "sh", filepath.Join(dir, ".ci", "secrets")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	made = map[string]string{}
	for name, secret := range p.Secrets {
		if filepath.Base(filepath.Dir(secret.File)) != "secrets" || filepath.Base(secret.File) != name {
			t.Errorf("the secret %s is not the file secrets/%[1]s: %+v", name, secret)
		}
		text, err := os.ReadFile(filepath.Join(dir, "secrets", name))
		if err != nil {
			t.Errorf(".ci/secrets does not make %s: %v", name, err)
		}
		made[name] = strings.TrimSuffix(string(text), "\n")
	}
	core = settings(p.Services["core"])
	for name, value := range core {
		path, inside := strings.CutPrefix(value, "/run/secrets/")
		switch setting, isFile := strings.CutSuffix(name, "_FILE"); {
		case isFile:
			core[setting] = made[path]
			delete(core, name)
		case inside:
			core[name] = filepath.Join(dir, "secrets", path)
		}
	}
	return made, core
}
