// Package observability reads what users get to watch ForgeQueue with,
// api-docs/observability: alert rules and dashboard. Its tests hold the two to the
// metrics that there are; those of package e2e try them on a real Prometheus.
package observability

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// Folder is where the files are, from the top of the repository.
const Folder = "api-docs/observability"

// Alert is one rule of alerts.yml.
type Alert struct {
	Name        string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// Alerts gives all alert rules; top is the way to the top of the repository.
func Alerts(tb testing.TB, top string) []Alert {
	tb.Helper()
	var file struct {
		Groups []struct {
			Rules []Alert `yaml:"rules"`
		} `yaml:"groups"`
	}
	ReadYAML(tb, filepath.Join(top, Folder, "alerts.yml"), &file)
	var all []Alert
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// Datasource says by which data source a panel or a variable asks.
type Datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Target is one query of a panel.
type Target struct {
	RefID      string      `json:"refId"`
	Expr       string      `json:"expr"`
	Legend     string      `json:"legendFormat"`
	Datasource *Datasource `json:"datasource"`
}

// Panel is one panel of the dashboard, or the title of a row.
type Panel struct {
	ID          int         `json:"id"`
	Type        string      `json:"type"`
	Title       string      `json:"title"`
	Description string      `json:"description"`
	Datasource  *Datasource `json:"datasource"`
	Place       struct {
		X int `json:"x"`
		Y int `json:"y"`
		W int `json:"w"`
		H int `json:"h"`
	} `json:"gridPos"`
	Fields struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Targets []Target `json:"targets"`
}

// Variable is one of what is chosen at the top of the dashboard.
type Variable struct {
	Name       string      `json:"name"`
	Type       string      `json:"type"`
	Definition string      `json:"definition"`
	AllValue   string      `json:"allValue"`
	Datasource *Datasource `json:"datasource"`
	Current    struct {
		Value any `json:"value"`
	} `json:"current"`
}

// Dashboard is Grafana's JSON model, as far as it is checked.
type Dashboard struct {
	UID           string  `json:"uid"`
	Title         string  `json:"title"`
	SchemaVersion int     `json:"schemaVersion"`
	Panels        []Panel `json:"panels"`
	Templating    struct {
		List []Variable `json:"list"`
	} `json:"templating"`
}

// ReadDashboard gives the dashboard; top is the way to the top of the repository.
func ReadDashboard(tb testing.TB, top string) Dashboard {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(top, Folder, "grafana", "dashboards", "forgequeue.json"))
	if err != nil {
		tb.Fatal(err)
	}
	var dashboard Dashboard
	if err := json.Unmarshal(text, &dashboard); err != nil {
		tb.Fatalf("forgequeue.json: %v", err)
	}
	return dashboard
}

// Query is the target's expression as Grafana would send it: for all processes, with
// rates over window, a duration such as 1m.
func (t Target) Query(window string) string {
	return strings.NewReplacer("$__rate_interval", window, "$instance", ".*").Replace(t.Expr)
}

// ReadYAML reads a file into a value.
func ReadYAML(tb testing.TB, path string, into any) {
	tb.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		tb.Fatalf("%s: %v", path, err)
	}
}
