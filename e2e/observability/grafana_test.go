package observability_test

import (
	"path/filepath"
	"testing"

	"github.com/forgequeue/forgequeue/e2e/observability"
)

// Every panel says what it shows and in what unit, asks by the data source that was
// chosen, and lies beside the others, not on them.
func TestDashboardPanels(t *testing.T) {
	t.Parallel()
	dashboard := observability.ReadDashboard(t, top)
	if dashboard.UID == "" || dashboard.Title == "" || dashboard.SchemaVersion < 39 {
		t.Errorf("the dashboard is %q, %q of schema %d", dashboard.UID, dashboard.Title, dashboard.SchemaVersion)
	}
	ids, titles := map[int]bool{}, map[string]bool{}
	taken := map[[2]int]string{}
	for _, panel := range dashboard.Panels {
		if panel.Title == "" || panel.ID == 0 || ids[panel.ID] || titles[panel.Title] {
			t.Errorf("panel %d, %q: the number and the title must be its own", panel.ID, panel.Title)
		}
		ids[panel.ID], titles[panel.Title] = true, true
		for x := panel.Place.X; x < panel.Place.X+panel.Place.W; x++ {
			for y := panel.Place.Y; y < panel.Place.Y+panel.Place.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s lies on %q at %d, %d", panel.Title, other, x, y)
				}
				taken[[2]int{x, y}] = panel.Title
			}
		}
		if panel.Type == "row" {
			continue
		}
		if panel.Description == "" || panel.Fields.Defaults.Unit == "" || len(panel.Targets) == 0 || panel.Place.W*panel.Place.H == 0 {
			t.Errorf("%s lacks a description, a unit, a query or a place", panel.Title)
		}
		asked := map[string]bool{}
		for _, target := range panel.Targets {
			if target.RefID == "" || asked[target.RefID] || target.Expr == "" || target.Legend == "" {
				t.Errorf("%s: a query without a letter of its own, an expression or a legend: %+v", panel.Title, target)
			}
			asked[target.RefID] = true
			for _, by := range []*observability.Datasource{panel.Datasource, target.Datasource} {
				if by == nil || by.Type != "prometheus" || by.UID != "${datasource}" {
					t.Errorf("%s asks by %+v", panel.Title, by)
				}
			}
		}
	}
}

// What is provisioned fits together: the data source is the one that the dashboard
// begins with, and the dashboard's variables are those that its expressions use.
func TestProvisioning(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(top, observability.Folder)
	var sources struct {
		Version int `yaml:"apiVersion"`
		Sources []struct {
			UID      string `yaml:"uid"`
			Type     string `yaml:"type"`
			Access   string `yaml:"access"`
			URL      string `yaml:"url"`
			Settings struct {
				Interval string `yaml:"timeInterval"`
			} `yaml:"jsonData"`
		} `yaml:"datasources"`
	}
	observability.ReadYAML(t, filepath.Join(folder, "grafana", "provisioning", "datasources", "prometheus.yml"), &sources)
	var prometheus struct {
		Global struct {
			Interval string `yaml:"scrape_interval"`
		} `yaml:"global"`
	}
	observability.ReadYAML(t, filepath.Join(folder, "prometheus.yml"), &prometheus)
	if sources.Version != 1 || len(sources.Sources) != 1 {
		t.Fatalf("data sources: %+v", sources)
	}
	source := sources.Sources[0]
	if source.Type != "prometheus" || source.Access != "proxy" || source.URL != "http://prometheus:9090" || source.Settings.Interval != prometheus.Global.Interval {
		t.Errorf("the data source: %+v, scraped every %s", source, prometheus.Global.Interval)
	}
	variables := map[string]observability.Variable{}
	for _, variable := range observability.ReadDashboard(t, top).Templating.List {
		variables[variable.Name] = variable
	}
	if chosen := variables["datasource"]; chosen.Type != "datasource" || chosen.Current.Value != source.UID {
		t.Errorf("the dashboard begins with the data source %v, and %s is provisioned", chosen.Current.Value, source.UID)
	}
	instance := variables["instance"]
	if instance.Type != "query" || instance.AllValue != ".*" || instance.Datasource == nil || instance.Datasource.UID != "${datasource}" ||
		instance.Definition != `label_values(up{job=~"core|gateway"}, instance)` || len(variables) != 2 {
		t.Errorf("the variables: %+v", variables)
	}
}
