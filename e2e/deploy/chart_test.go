package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/forgequeue/forgequeue/e2e/stack"
)

// The chart, and the release that the tests make of it: no other word in its objects begins so.
const chart, release = "api-docs/deploy/helm/forgequeue", "fq"

// helm renders the chart with each of the sets of values, as helm install does (e2e/parsers/kubernetes). It gives the
// objects by the name of their set, or what is wrong.
func helm(t *testing.T, sets map[string]string) (map[string][]any, error) {
	t.Helper()
	dir := t.TempDir()
	args := []string{"-chart", mustAbs(t, filepath.Join(top, chart)), "-release", release}
	for name := range sets {
		args = append(args, name)
	}
	writeAll(t, dir, sets)
	run := exec.CommandContext(t.Context(), stack.Kubernetes(t), args...)
	run.Dir = dir
	var problems bytes.Buffer
	run.Stderr = &problems
	output, err := run.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, problems.String())
	}
	var made map[string][]any
	return made, json.Unmarshal(output, &made)
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	whole, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return whole
}

// setsOfValues are as people would write them. "" is none.
func setsOfValues() map[string]string {
	return map[string]string{
		"default": "",
		"cells":   "cells: {secret: cells, names: [first, second]}",
		"much": `
image: {registry: registry.example.com/queue, tag: v9, pullPolicy: Always, pullSecrets: [pull]}
secrets: {core: own-core, gateway: own-gateway}
core:
  replicas: 3
  env: {FORGEQUEUE_METRICS_QUEUES: 0198d8a2-5d9c-7c53-8f6e-6b1c2f0a9d10/mail}
  podAnnotations: {checksum: "1"}
  nodeSelector: {disk: ssd}
  tolerations: [{key: jobs, operator: Exists, effect: NoSchedule}]
gateway:
  env: {FORGEQUEUE_TRUSTED_PROXIES: 10.0.0.0/8}
  service: {type: LoadBalancer, port: 8000, annotations: {a: b}}
  ingress: {enabled: true, className: nginx, host: jobs.example.com, tlsSecret: certificate, annotations: {a: b}}
networkPolicy:
  monitoringNamespace: watch
  coreEgress: [{to: [{ipBlock: {cidr: 10.1.0.0/16}}], ports: [{protocol: TCP, port: 443}]}]
  gatewayEgress: [{ports: [{protocol: TCP, port: 4318}]}]
serviceMonitor: {enabled: true, labels: {release: prometheus}}
workers:
  - {deployment: mail-workers, queue: mail, slots: 10, maxReplicas: 50}
  - {deployment: b, queue: b, slots: 1, minReplicas: 2, maxReplicas: 3, targetWaitMS: 1000000, coldStartMS: 5000, pollingInterval: 5, namespace: others, secret: {name: k, key: v}}
`,
		"little": `
core: {podDisruptionBudget: false}
gateway: {replicas: 4, podDisruptionBudget: false, autoscaling: {enabled: false}}
migrate: {enabled: false}
networkPolicy: {enabled: false}
`,
	}
}

// What the chart installs by default is what the manifests say, with cells too. It has names and labels of its release.
func TestChartIsTheManifests(t *testing.T) {
	t.Parallel()
	made, err := helm(t, setsOfValues())
	if err != nil {
		t.Fatal(err)
	}
	built := buildManifests(t)
	for set, folders := range map[string][]string{"default": {"migrate", "."}, "cells": {"../migrate-cells", "../with-cells"}} {
		want := map[string]any{}
		for _, folder := range folders {
			maps.Copy(want, plainObjects(t, built[folder]))
		}
		maps.DeleteFunc(want, func(name string, _ any) bool {
			return strings.HasPrefix(name, "Secret ") || strings.HasPrefix(name, "Namespace ")
		})
		got := plainObjects(t, made[set])
		if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, slices.Sorted(maps.Keys(want))) {
			t.Errorf("%s: the chart has %v", set, names)
		}
		for name := range want {
			if !reflect.DeepEqual(got[name], want[name]) {
				t.Errorf("%s: %s is\n%s\nin the manifests, and in the chart\n%s", set, name, indented(t, want[name]), indented(t, got[name]))
			}
		}
	}
}

func indented(t *testing.T, value any) string {
	t.Helper()
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Pods of every set of values are as those of the manifests: hardened, with settings that their program takes.
func TestChartKeepsWhatTheManifestsHave(t *testing.T) {
	t.Parallel()
	made, err := helm(t, setsOfValues())
	if err != nil {
		t.Fatal(err)
	}
	manifests, _ := kubernetes(t)
	for set, objects := range made {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			all := typed(t, plainObjects(t, objects))
			for name, one := range manifests {
				if one.Kind != "Secret" {
					continue
				}
				_, one.Metadata.Name, _ = strings.Cut(name, " ")
				all[name] = one
				one.Metadata.Name = "own-" + one.Metadata.Name
				all[name+" own"] = one
			}
			all["Secret cells"] = object{Kind: "Secret", Data: map[string][]byte{}}
			for name, text := range cellsOfKubernetes(t) {
				all["Secret cells"].Data[name] = []byte(text)
			}
			cells := all["Secret cells"]
			cells.Metadata.Name = "cells"
			all["Secret cells"] = cells
			for _, name := range pods {
				pod := all[name].Spec.Template.Spec
				if name == "Job migrate" && set == "little" {
					continue
				}
				if len(pod.Containers) != 1 {
					t.Fatalf("%s has %d containers", name, len(pod.Containers))
				}
				pod.Containers[0].Image = regexp.MustCompile(`^registry\.example\.com/queue/(\w+):v9$`).ReplaceAllString(pod.Containers[0].Image, "forgequeue/$1:dev")
				checkHardening(t, pod)
				checkSettings(t, pod, all)
				if name != "Job migrate" {
					checkPorts(t, pod.Containers[0])
				}
			}
			if set == "default" {
				checkWhoNamesWhom(t, all)
			}
		})
	}
}

// A name that is not there, a wrong type, and what would not run are refused.
func TestChartRefuses(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"replicas: 3":                                                            "replicas",
		"core: {replica: 3}":                                                     "replica",
		"core: {replicas: 0}":                                                    "/core/replicas",
		`core: {replicas: "2"}`:                                                  "/core/replicas",
		"core: {env: {FORGEQUEUE_CELLS: x}}":                                     "FORGEQUEUE_CELLS",
		"gateway: {env: {REDIS_URL: x}}":                                         "REDIS_URL",
		"gateway: {env: {LIMIT: 5}}":                                             "/gateway/env",
		"gateway: {ingress: {enabled: true}}":                                    "/gateway/ingress/host",
		"gateway: {service: {port: 0}}":                                          "/gateway/service/port",
		"image: {pullPolicy: Sometimes}":                                         "/image/pullPolicy",
		"secrets: {core: Core}":                                                  "/secrets/core",
		"cells: {secret: cells}":                                                 "/cells/names",
		"cells: {names: [first]}":                                                "/cells/names",
		"serviceMonitor: {interval: often}":                                      "/serviceMonitor/interval",
		"workers: [{deployment: a, queue: a}]":                                   "/workers/0",
		"workers: [{deployment: a, queue: a, slots: 0, maxReplicas: 1}]":         "/workers/0/slots",
		"networkPolicy: {coreEgress: [{to: [{ipBlock: {cdr: 10.0.0.0/8}}]}]}":    "cdr", // by the API's type
		"core: {resources: {limits: {memory: 1Gi}, request: {memory: 500Mi}}}":   "request",
		"gateway: {autoscaling: {minReplicas: 2, targetCPUUtilization: 70}}":     "targetCPUUtilization",
		"workers: [{deployment: a, queue: a, slots: 1, maxReplicas: 1, max: 1}]": "max",
	} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			if _, err := helm(t, map[string]string{"values.yaml": values}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the answer is %v", err)
			}
		})
	}
}

// What the chart sets cannot be set a second time by env.
func TestChartRefusesItsOwnSettings(t *testing.T) {
	t.Parallel()
	made, err := helm(t, setsOfValues())
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]struct {
			Properties struct {
				Env struct {
					PropertyNames struct{ Not struct{ Enum []string } }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(chart, "values.schema.json"))), &schema); err != nil {
		t.Fatal(err)
	}
	all := typed(t, plainObjects(t, made["cells"]))
	for _, service := range []string{"core", "gateway"} {
		refused := schema.Properties[service].Properties.Env.PropertyNames.Not.Enum
		for _, variable := range all["Deployment "+service].Spec.Template.Spec.Containers[0].Env {
			for _, name := range []string{variable.Name, strings.TrimSuffix(variable.Name, "_FILE")} {
				if !slices.Contains(refused, name) {
					t.Errorf("%s.env takes %s", service, name)
				}
			}
		}
	}
}

// The recipe for KEDA on the page of the manifests is what the chart makes of the entry on its own page.
func TestChartHasTheRecipeOfKEDA(t *testing.T) {
	t.Parallel()
	_, entry, _ := strings.Cut(read(t, filepath.Join(chart, "README.md")), "```yaml\nworkers:")
	entry, _, _ = strings.Cut(entry, "```")
	made, err := helm(t, map[string]string{"values.yaml": "workers:" + entry})
	if err != nil {
		t.Fatal(err)
	}
	got := plainObjects(t, made["values.yaml"])
	_, recipe, _ := strings.Cut(pageOfKubernetes(t), "```yaml\napiVersion: keda")
	recipe, _, _ = strings.Cut("apiVersion: keda"+recipe, "```")
	seen := 0
	for text := range strings.SplitSeq(recipe, "---\n") {
		var want map[string]any
		if err := yaml.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		kind, _ := want["kind"].(string)
		one, _ := got[kind+" mail-workers"].(map[string]any)
		if written, made := indented(t, want["spec"]), indented(t, one["spec"]); written != made {
			t.Errorf("%s is on the page\n%s\nand in the chart\n%s", kind, written, made)
		}
		seen++
	}
	if seen != 2 {
		t.Errorf("the recipe has %d objects", seen)
	}
}

// The notes name the secrets and the address.
func TestNotesOfTheChart(t *testing.T) {
	t.Parallel()
	made, err := helm(t, setsOfValues())
	if err != nil {
		t.Fatal(err)
	}
	for set, want := range map[string][]string{
		"default": {"fq-core and fq-gateway", "8080:80 &", "forgequeue key ensure"},
		"much":    {"own-core and own-gateway", "8080:8000 &", "https://jobs.example.com"},
		"little":  {"core migrate"},
	} {
		notes := ""
		for _, one := range made[set] {
			if object, _ := one.(map[string]any); object["kind"] == "Notes" {
				notes, _ = object["text"].(string)
			}
		}
		for _, words := range want {
			if !strings.Contains(notes, words) {
				t.Errorf("%s: the notes do not say %q:\n%s", set, words, notes)
			}
		}
	}
}

// plainObjects are objects by kind and name as the manifests name them: without what belongs to a release of the chart,
// the hash of a secret's name, and the labels of an object itself. Lists with names are sorted by them.
func plainObjects(t *testing.T, objects []any) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, one := range objects {
		object, _ := plain(one).(map[string]any)
		metadata, ok := object["metadata"].(map[string]any)
		if !ok {
			continue // the notes
		}
		delete(metadata, "labels")
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			maps.DeleteFunc(annotations, func(name string, _ any) bool { return strings.HasPrefix(name, "helm.sh/") })
			if len(annotations) == 0 {
				delete(metadata, "annotations")
			}
		}
		all[fmt.Sprint(object["kind"], " ", metadata["name"])] = object
	}
	return all
}

var (
	hashed    = regexp.MustCompile(`^(core|gateway|cells)-[a-z0-9]{10}$`)
	published = regexp.MustCompile(`^ghcr\.io/forgequeue/forgequeue/(\w+):[0-9.]+$`)
)

func plain(value any) any {
	switch value := value.(type) {
	case string:
		value = hashed.ReplaceAllString(published.ReplaceAllString(value, "forgequeue/$1:dev"), "$1")
		return strings.ReplaceAll(value, release+"-", "")
	case []any:
		for i := range value {
			value[i] = plain(value[i])
		}
		slices.SortStableFunc(value, func(a, b any) int { return strings.Compare(nameOf(a), nameOf(b)) })
	case map[string]any:
		for key := range value {
			value[key] = plain(value[key])
		}
		for _, label := range []string{"instance", "part-of"} {
			delete(value, "app.kubernetes.io/"+label)
		}
		if labels, ok := value["matchLabels"].(map[string]any); ok && len(labels) == 0 {
			delete(value, "matchLabels")
		}
	}
	return value
}

func nameOf(value any) string {
	one, _ := value.(map[string]any)
	name, _ := one["name"].(string)
	return name
}

// typed are the same objects as the other tests look at them.
func typed(t *testing.T, plain map[string]any) map[string]object {
	t.Helper()
	all := map[string]object{}
	text, err := json.Marshal(plain)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}
