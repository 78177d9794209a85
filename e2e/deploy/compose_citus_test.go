package deploy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"

	coreapp "github.com/forgequeue/forgequeue/core/app"
)

// The overlay makes PostgreSQL a coordinator and adds two workers, which are as PostgreSQL was but for image, data,
// start, memory and processes, and one service that ends. What the other tests hold the Compose file to therefore
// holds with the overlay too.
func TestComposeCitusAddsNodes(t *testing.T) {
	t.Parallel()
	plain, p := project(t), withOverlay(t, "docker-compose.citus.yml")
	before, coordinator := plain.Services["postgres"], p.Services["postgres"]
	image := coordinator.Image
	if !strings.HasPrefix(image, "citusdata/citus:") {
		t.Fatalf("the image is %s", image)
	}
	for node, volume := range map[string]string{"postgres": "citus-coordinator", "citus-worker-1": "citus-worker-1", "citus-worker-2": "citus-worker-2"} {
		first, service := before, p.Services[node]
		if len(service.Volumes) != 1 || service.Volumes[0].Source != volume || p.Volumes[volume].Name == "" || service.Volumes[0].Target != first.Volumes[0].Target {
			t.Errorf("%s: its data is in %v", node, service.Volumes)
		}
		for _, setting := range append(slices.Clone(first.Command[1:4]), "-cwal_level=logical", "-cenable_seqscan=off", "-cenable_bitmapscan=off", "-cjit=off", "-ctimezone=UTC") {
			if !slices.Contains(service.Command, setting) {
				t.Errorf("%s lacks %s", node, setting)
			}
		}
		start := strings.Join(service.Entrypoint, "\n")
		for _, want := range []string{" NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;", "ALTER DATABASE forgequeue OWNER TO forgequeue_core;"} {
			if !strings.Contains(start, want) || !strings.Contains(strings.Join(first.Entrypoint, "\n"), want) {
				t.Errorf("the start of %s lacks %q", node, want)
			}
		}
		if limits := service.Deploy.Resources.Limits; limits == nil || limits.MemoryBytes == 0 || limits.NanoCPUs == 0 || limits.Pids == 0 {
			t.Errorf("%s has no limits", node)
		}
		if service.Image != image || !slices.Equal(service.Entrypoint, coordinator.Entrypoint) || !slices.Equal(service.Command, coordinator.Command) {
			t.Errorf("%s is not started as the coordinator is", node)
		}
		first.Name, first.Image, first.Volumes, first.Deploy = service.Name, service.Image, service.Volumes, service.Deploy
		first.Entrypoint, first.Command = service.Entrypoint, service.Command
		same(t, node, service, first)
		delete(p.Services, node)
		delete(plain.Services, node)
	}
	joins := p.Services["citus"]
	if joins.Image != image || joins.User != "1000:1000" || !joins.ReadOnly || !slices.Equal(joins.CapDrop, []string{"ALL"}) || len(joins.CapAdd)+len(joins.Ports)+len(joins.Volumes) > 0 ||
		!slices.Contains(joins.SecurityOpt, "no-new-privileges:true") || joins.Restart != "no" || joins.Logging.Options["max-size"] == "" ||
		joins.Deploy.Resources.Limits.MemoryBytes == 0 || joins.Deploy.Resources.Limits.Pids == 0 || len(joins.Networks) != 1 {
		t.Errorf("what joins the nodes is not hardened: %+v", joins)
	}
	for _, node := range []string{"postgres", "citus-worker-1", "citus-worker-2"} {
		if joins.DependsOn[node].Condition != types.ServiceConditionHealthy {
			t.Errorf("the nodes are joined before %s is healthy", node)
		}
	}
	delete(p.Services, "citus")
	cells := map[string]string{}
	for _, name := range []string{"core", "core-second"} {
		for cell := range strings.SplitSeq(settings(p.Services[name])["FORGEQUEUE_SERVE_CELLS"], ",") {
			cells[cell] = name
		}
		delete(p.Services[name].Environment, "FORGEQUEUE_SERVE_CELLS")
	}
	if len(cells) != 9 || cells["home"] != "core" {
		t.Errorf("the cells are served by %v", cells)
	}
	servedBy(t, p, cells)
	if p.Services["migrate"].DependsOn["citus"].Condition != types.ServiceConditionCompletedSuccessfully {
		t.Error("the cells are made before the nodes are joined") // cores wait for that
	}
	for _, name := range []string{"core", "core-second", "migrate"} {
		service := p.Services[name]
		service.Secrets = slices.DeleteFunc(slices.Clone(service.Secrets), func(s types.ServiceSecretConfig) bool { return s.Source == "citus_cells" })
		delete(service.DependsOn, "citus")
		delete(service.Environment, "FORGEQUEUE_CELLS")
		delete(service.Environment, "FORGEQUEUE_DATABASE_CONNS")
		p.Services[name] = service
	}
	another := p.Services["core-second"]
	delete(another.Environment, "FORGEQUEUE_HOME_URL")
	another.Name = "core"
	same(t, "core-second", another, plain.Services["core"])
	delete(p.Services, "core-second")
	if got, want := slices.Sorted(maps.Keys(p.Services)), slices.Sorted(maps.Keys(plain.Services)); !slices.Equal(got, want) {
		t.Fatalf("besides the nodes there are %v, want %v", got, want)
	}
	for name, service := range p.Services {
		same(t, name, service, plain.Services[name])
	}
	if !reflect.DeepEqual(p.Networks, plain.Networks) {
		t.Errorf("networks %v, want %v", p.Networks, plain.Networks)
	}
}

// With what .ci/secrets makes core's configuration is complete: the home cell has plain tables and no tenants of its
// own, and each other cell is a schema of the coordinator that Citus distributes.
func TestComposeCitusSecrets(t *testing.T) {
	t.Parallel()
	p := withOverlay(t, "docker-compose.citus.yml")
	made, core := secretsOf(t, p)
	if _, err := coreapp.Parse(core); err != nil {
		t.Errorf("core does not start: %v", err)
	}
	text, err := os.ReadFile(core["FORGEQUEUE_CELLS"])
	if err != nil {
		t.Fatal(err)
	}
	var cells []struct {
		Name, DSN  string
		AcceptsNew *bool `json:"accepts_new"`
	}
	if err := json.Unmarshal(text, &cells); err != nil || len(cells) != 9 {
		t.Fatalf("%d cells: %v", len(cells), err)
	}
	if home := cells[0]; home.DSN != "" || home.AcceptsNew == nil || *home.AcceptsNew {
		t.Errorf("the first is not a home cell without tenants")
	}
	for i, cell := range cells[1:] {
		u, err := url.Parse(cell.DSN)
		if err != nil {
			t.Fatal(err)
		}
		given := u.Query()
		if want := fmt.Sprint("cell", i+1); cell.Name != want || given.Get("search_path") != want || given.Get("citus.enable_schema_based_sharding") != "on" {
			t.Errorf("%s is %s", cell.Name, u.Redacted())
		}
		given.Del("search_path")
		given.Del("citus.enable_schema_based_sharding")
		u.RawQuery = given.Encode()
		if u.String() != made["database_url"] {
			t.Errorf("%s is not on the coordinator", cell.Name)
		}
	}
}
