package deploy_test

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/forgequeue/forgequeue/e2e/observability"
)

// Prometheus looks for the services where the Compose file lets them show their
// metrics, and shares a network with each.
func TestPrometheusFindsTheServices(t *testing.T) {
	t.Parallel()
	services := project(t).Services
	var config struct {
		Scrapes []struct {
			Job string `yaml:"job_name"`
			DNS []struct {
				Names []string `yaml:"names"`
				Type  string   `yaml:"type"`
				Port  int      `yaml:"port"`
			} `yaml:"dns_sd_configs"`
		} `yaml:"scrape_configs"`
	}
	observability.ReadYAML(t, filepath.Join(top, observability.Folder, "prometheus.yml"), &config)
	found := map[string]string{}
	for _, scrape := range config.Scrapes {
		for _, dns := range scrape.DNS {
			if len(dns.Names) != 1 || dns.Names[0] != scrape.Job || dns.Type != "A" {
				t.Errorf("%s is looked for by %+v", scrape.Job, dns)
			}
			found[scrape.Job] = "0.0.0.0:" + strconv.Itoa(dns.Port)
		}
	}
	for name, variable := range map[string]string{"core": "FORGEQUEUE_CORE_METRICS_LISTEN", "gateway": "FORGEQUEUE_METRICS_LISTEN"} {
		if listens := settings(services[name])[variable]; listens == "" || listens != found[name] {
			t.Errorf("%s shows its metrics at %q, and Prometheus looks at %q", name, listens, found[name])
		}
		if _, shared := services[name].Networks["metrics"]; !shared {
			t.Errorf("%s is not on the network of the metrics", name)
		}
	}
	if !mounted(t, services["prometheus"], observability.Folder, "/etc/forgequeue") || !slices.Contains(services["prometheus"].Command, "--config.file=/etc/forgequeue/prometheus.yml") {
		t.Errorf("Prometheus does not get its files: %v", services["prometheus"].Volumes)
	}
}

// mounted says whether a folder of the repository is there in a container, read-only.
func mounted(t *testing.T, service types.ServiceConfig, folder, target string) bool {
	t.Helper()
	return slices.ContainsFunc(service.Volumes, func(v types.ServiceVolumeConfig) bool {
		return v.Type == types.VolumeTypeBind && strings.HasSuffix(filepath.ToSlash(v.Source), "/"+folder) && v.Target == target && v.ReadOnly &&
			v.Bind != nil && !bool(v.Bind.CreateHostPath)
	})
}
