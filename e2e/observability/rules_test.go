package observability_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/e2e/observability"
	"github.com/forgequeue/forgequeue/e2e/stack"
)

// What Prometheus' own tool has to say, and its run of the rules' tests.
func TestPromtool(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"check", "config", "prometheus.yml"},
		{"check", "rules", "alerts.yml"},
		{"test", "rules", "alerts_test.yml"},
	} {
		t.Run(strings.Join(args[:2], " "), func(t *testing.T) {
			t.Parallel()
			command := exec.CommandContext(t.Context(), stack.Need(t, "promtool"), args...)
			command.Dir = filepath.Join(top, observability.Folder)
			if output, err := command.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, output)
			}
		})
	}
}

type ruleTest struct {
	Name    string `yaml:"name"`
	Queries []struct {
		Expr    string `yaml:"expr"`
		Samples []struct {
			Labels string `yaml:"labels"`
		} `yaml:"exp_samples"`
	} `yaml:"promql_expr_test"`
}

// Each alert is tried: that it fires, that it waits before it does, and that it is
// silent just below its bound.
func TestEveryAlertIsTried(t *testing.T) {
	t.Parallel()
	var file struct {
		Tests []ruleTest `yaml:"tests"`
	}
	observability.ReadYAML(t, filepath.Join(top, observability.Folder, "alerts_test.yml"), &file)
	fires, waits, silent := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		name, isFiring := strings.CutSuffix(test.Name, " fires")
		other, _, isSilent := strings.Cut(test.Name, " is silent: ")
		for _, query := range test.Queries {
			if isFiring && len(query.Samples) == 1 && query.Samples[0].Labels == `{alertname="`+name+`"}` {
				fires[name] = fires[name] || asks(query.Expr, name, "firing")
				waits[name] = waits[name] || asks(query.Expr, name, "pending")
			}
			if isSilent && asks(query.Expr, other, "firing") && len(query.Samples) == 0 {
				silent[other] = true
			}
		}
	}
	for _, alert := range observability.Alerts(t, top) {
		if !fires[alert.Name] || !silent[alert.Name] || waits[alert.Name] != (alert.For != "") {
			t.Errorf("%s: shown to fire %v, to wait %v, to be silent %v", alert.Name, fires[alert.Name], waits[alert.Name], silent[alert.Name])
		}
	}
}

// asks says whether an expression asks for one alert in that state.
func asks(expr, alert, state string) bool {
	return strings.Contains(expr, `ALERTS{alertname="`+alert+`", alertstate="`+state+`"}`)
}

// Each alert says how bad it is, what is wrong, what to do, and where to read on.
func TestAlertsSayWhatToDo(t *testing.T) {
	t.Parallel()
	anchors := headings(t)
	named := map[string]bool{}
	for _, alert := range observability.Alerts(t, top) {
		if named[alert.Name] {
			t.Errorf("two alerts are called %s", alert.Name)
		}
		named[alert.Name] = true
		if severity := alert.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s: its severity is %q", alert.Name, severity)
		}
		if len(alert.Annotations["summary"]) < 10 || len(alert.Annotations["description"]) < 60 {
			t.Errorf("%s says too little: %q", alert.Name, alert.Annotations)
		}
		page, anchor, _ := strings.Cut(alert.Annotations["runbook"], "#")
		if page != "api-docs/operations.md" || !slices.Contains(anchors, anchor) {
			t.Errorf("%s: there is no %s", alert.Name, alert.Annotations["runbook"])
		}
	}
	table := read(t, "api-docs/observability.md")
	for name := range named {
		if !strings.Contains(table, "| `"+name+"` |") {
			t.Errorf("observability.md lacks %s", name)
		}
	}
}

// headings gives the anchors of operations.md.
func headings(t *testing.T) (anchors []string) {
	t.Helper()
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(read(t, "api-docs/operations.md"), -1) {
		anchor := regexp.MustCompile(`[^\w -]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		anchors = append(anchors, strings.ReplaceAll(anchor, " ", "-"))
	}
	for _, named := range regexp.MustCompile(`<a (?:id|name)="([^"]+)">`).FindAllStringSubmatch(read(t, "api-docs/operations.md"), -1) {
		anchors = append(anchors, named[1])
	}
	return anchors
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
