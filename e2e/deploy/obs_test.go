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

// Grafana gets what is provisioned where it looks for it, asks for a password, and
// calls nobody.
func TestGrafanaIsProvisioned(t *testing.T) {
	t.Parallel()
	grafana := project(t).Services["grafana"]
	var providers struct {
		Providers []struct {
			Type    string `yaml:"type"`
			Options struct {
				Path string `yaml:"path"`
			} `yaml:"options"`
		} `yaml:"providers"`
	}
	folder := observability.Folder + "/grafana"
	observability.ReadYAML(t, filepath.Join(top, folder, "provisioning", "dashboards", "forgequeue.yml"), &providers)
	if len(providers.Providers) != 1 || providers.Providers[0].Type != "file" {
		t.Fatalf("dashboards come from %+v", providers)
	}
	dashboards := providers.Providers[0].Options.Path
	if !mounted(t, grafana, folder+"/provisioning", "/etc/grafana/provisioning") || !mounted(t, grafana, folder+"/dashboards", dashboards) {
		t.Errorf("Grafana does not get its files: %v", grafana.Volumes)
	}
	set := settings(grafana)
	for name, want := range map[string]string{
		"GF_SECURITY_ADMIN_PASSWORD__FILE": "/run/secrets/grafana_password", "GF_AUTH_ANONYMOUS_ENABLED": "false", "GF_USERS_ALLOW_SIGN_UP": "false",
		"GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH": dashboards + "/forgequeue.json",
		"GF_ANALYTICS_REPORTING_ENABLED":            "false", "GF_ANALYTICS_CHECK_FOR_UPDATES": "false", "GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES": "false",
		"GF_NEWS_NEWS_FEED_ENABLED": "false", "GF_SECURITY_DISABLE_GRAVATAR": "true", "GF_PLUGINS_PREINSTALL_DISABLED": "true",
		"GF_PLUGINS_PUBLIC_KEY_RETRIEVAL_DISABLED": "true", "GF_SNAPSHOTS_EXTERNAL_ENABLED": "false",
	} {
		if set[name] != want {
			t.Errorf("%s is %q, want %q", name, set[name], want)
		}
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
