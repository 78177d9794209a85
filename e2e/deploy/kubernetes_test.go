package deploy_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	coreapp "github.com/forgequeue/forgequeue/core/app"
	"github.com/forgequeue/forgequeue/e2e/stack"
	gatewayapp "github.com/forgequeue/forgequeue/gateway/app"
	"github.com/forgequeue/forgequeue/shared/server/secret"
)

const manifests = "api-docs/deploy/kubernetes"

// object is what the tests look at of one object of the Kubernetes API.
type object struct {
	Kind     string
	Metadata struct {
		Name, Namespace string
		Labels          map[string]string
	}
	Data map[string][]byte
	Spec objectSpec
}

type objectSpec struct {
	Replicas       *int
	Template       struct{ Spec podSpec }
	ClusterIP      string
	Ports          []struct{ Port, TargetPort any }
	Selector       map[string]any
	PodSelector    labelSelector
	PolicyTypes    []string
	MinReplicas    int
	ScaleTargetRef struct{ Kind, Name string }
	MaxUnavailable any
}

type labelSelector struct{ MatchLabels map[string]string }

type podSpec struct {
	AutomountServiceAccountToken  *bool
	EnableServiceLinks            *bool
	TerminationGracePeriodSeconds int
	RestartPolicy                 string
	SecurityContext               struct {
		RunAsNonRoot   bool
		RunAsUser      int
		SeccompProfile struct{ Type string }
	}
	HostNetwork, HostPID bool
	Containers           []container
	Volumes              []struct {
		Name   string
		Secret struct {
			SecretName  string
			DefaultMode int
			Items       []struct{ Key, Path string }
		}
	}
}

type container struct {
	Name, Image string
	Command     []string
	Args        []string
	Env         []struct{ Name, Value string }
	Ports       []struct {
		Name          string
		ContainerPort int
	}
	StartupProbe, ReadinessProbe, LivenessProbe *struct {
		HTTPGet struct{ Path, Port string }
	}
	SecurityContext struct {
		AllowPrivilegeEscalation *bool
		ReadOnlyRootFilesystem   bool
		Capabilities             struct{ Add, Drop []string }
	}
	Resources    struct{ Requests, Limits map[string]string }
	VolumeMounts []struct {
		Name, MountPath string
		ReadOnly        bool
	}
}

// secretsOfKubernetes are the files that the page has people make.
func secretsOfKubernetes() map[string]string {
	long := func(letter string) string { return strings.Repeat(letter, 44) }
	return map[string]string{
		"database_url": "postgres://core:x@db.example.com/forgequeue?sslmode=verify-full", "redis_url": "rediss://:x@redis.example.com",
		"hop_secret": long("h"), "push_secrets_key": long("p"), "key_secret": long("k"), "console_secret": long("c"), "operator_key": long("o"),
	}
}

func writeAll(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// kubernetes gives what is applied, by kind and name without the hash of its content; withCells is the same through the
// overlays of the page that have the component cells.
func kubernetes(t *testing.T) (all, withCells map[string]object) {
	t.Helper()
	text, err := json.Marshal(buildManifests(t))
	if err != nil {
		t.Fatal(err)
	}
	var built map[string][]object
	if err := json.Unmarshal(text, &built); err != nil {
		t.Fatal(err)
	}
	return named(t, built["migrate"], built["."]), named(t, built["../migrate-cells"], built["../with-cells"])
}

// buildManifests builds the kustomizations and the page's overlays, with secrets of their own, as kubectl apply -k does,
// and decodes each object strictly into its type (e2e/parsers/kubernetes). It gives the objects by folder.
func buildManifests(t *testing.T) map[string][]any {
	t.Helper()
	dir := t.TempDir()
	here := filepath.Join(dir, "kubernetes")
	if err := os.CopyFS(here, os.DirFS(filepath.Join(top, manifests))); err != nil {
		t.Fatal(err)
	}
	writeAll(t, filepath.Join(here, "namespace", "secrets"), secretsOfKubernetes())
	writeAll(t, filepath.Join(here, "cells", "secrets"), cellsOfKubernetes(t))
	for name, folder := range map[string]string{"with-cells": ".", "migrate-cells": "migrate"} {
		writeAll(t, filepath.Join(dir, name), map[string]string{"kustomization.yaml": overlayOfKubernetes(t, folder)})
	}
	run := exec.CommandContext(t.Context(), stack.Kubernetes(t), ".", "migrate", "../with-cells", "../migrate-cells")
	run.Dir = here
	var problems bytes.Buffer
	run.Stderr = &problems
	output, err := run.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, problems.String())
	}
	var built map[string][]any
	if err := json.Unmarshal(output, &built); err != nil {
		t.Fatal(err)
	}
	return built
}

func named(t *testing.T, lists ...[]object) map[string]object {
	t.Helper()
	all := map[string]object{}
	for _, one := range slices.Concat(lists...) {
		if one.Kind != "Namespace" && one.Metadata.Namespace != "forgequeue" {
			t.Errorf("%s %s is in the namespace %q", one.Kind, one.Metadata.Name, one.Metadata.Namespace)
		}
		name := one.Metadata.Name
		if one.Kind == "Secret" {
			name, _, _ = strings.Cut(name, "-")
		}
		all[one.Kind+" "+name] = one
	}
	return all
}

// pods are what has a template of a pod.
var pods = []string{"Deployment core", "Deployment gateway", "Job migrate"}

func TestKubernetes(t *testing.T) {
	t.Parallel()
	all, withCells := kubernetes(t)
	checkCells(t, all, withCells)
	want := []string{
		"Deployment core", "Deployment gateway", "HorizontalPodAutoscaler gateway", "Job migrate", "Namespace forgequeue",
		"NetworkPolicy core", "NetworkPolicy gateway", "NetworkPolicy migrate", "NetworkPolicy names", "NetworkPolicy nothing",
		"PodDisruptionBudget core", "PodDisruptionBudget gateway", "Secret core", "Secret gateway", "Service core", "Service gateway",
	}
	if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, want) {
		t.Fatalf("there are %v", got)
	}
	for _, name := range pods {
		t.Run(name, func(t *testing.T) {
			pod := all[name].Spec.Template.Spec
			if len(pod.Containers) != 1 {
				t.Fatalf("%d containers", len(pod.Containers))
			}
			checkHardening(t, pod)
			checkSettings(t, pod, all)
			if name != "Job migrate" {
				checkPorts(t, pod.Containers[0])
			}
		})
	}
	checkWhoNamesWhom(t, all)
}

// checkHardening: nothing that the pod does not need, and no secret among its variables.
func checkHardening(t *testing.T, pod podSpec) {
	t.Helper()
	c := pod.Containers[0]
	if pod.HostNetwork || pod.HostPID || pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken ||
		pod.EnableServiceLinks == nil || *pod.EnableServiceLinks {
		t.Error("it gets something of the node's or the cluster's")
	}
	if s := pod.SecurityContext; !s.RunAsNonRoot || s.SeccompProfile.Type != "RuntimeDefault" {
		t.Errorf("its security context is %+v", s)
	}
	image := strings.TrimSuffix(strings.TrimPrefix(c.Image, "forgequeue/"), ":dev")
	dockerfile := read(t, "Dockerfile")
	if !strings.Contains(dockerfile, "\nFROM base AS "+image+"\n") {
		t.Fatalf("its image is %s, which nothing builds", c.Image)
	}
	if user := strconv.Itoa(pod.SecurityContext.RunAsUser); !strings.Contains(dockerfile, "\nUSER "+user+":"+user+"\n") {
		t.Errorf("it runs as %s, its image does not", user)
	}
	if s := c.SecurityContext; s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !s.ReadOnlyRootFilesystem ||
		!slices.Equal(s.Capabilities.Drop, []string{"ALL"}) || len(s.Capabilities.Add) > 0 {
		t.Errorf("its container's security context is %+v", s)
	}
	if c.Resources.Limits["memory"] == "" || c.Resources.Limits["cpu"] == "" || c.Resources.Requests["cpu"] == "" {
		t.Errorf("its resources are %+v", c.Resources)
	}
}

// checkSettings: the command exists, and its configuration takes every variable and, with these alone, is complete.
func checkSettings(t *testing.T, pod podSpec, all map[string]object) {
	t.Helper()
	c := pod.Containers[0]
	service := strings.TrimSuffix(strings.TrimPrefix(c.Image, "forgequeue/"), ":dev")
	source, err := os.ReadFile(filepath.Join(top, service, "commands", "commands.go"))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Command) > 0 || len(c.Args) != 1 || !regexp.MustCompile(`Name: ("`+regexp.QuoteMeta(c.Args[0])+`"|program\.(?i:`+regexp.QuoteMeta(c.Args[0])+`)),`).Match(source) {
		t.Errorf("%s has no command %v %v", service, c.Command, c.Args)
	}
	config := map[string]reflect.Type{"core": reflect.TypeFor[coreapp.Config](), "gateway": reflect.TypeFor[gatewayapp.Config]()}[service]
	known, settings := settingsOf(config), map[string]string{}
	for _, variable := range c.Env {
		name, isFile := strings.CutSuffix(variable.Name, "_FILE")
		kind, ok := known[name]
		switch {
		case !ok, isFile != (kind == reflect.TypeFor[secret.Text]()):
			t.Errorf("%s knows no setting %s, or it is a secret that is not in a file", service, variable.Name)
		case isFile:
			settings[name] = fileInPod(t, pod, variable.Value, all)
		case name == "FORGEQUEUE_CELLS":
			settings[name] = cellsInPod(t, pod, variable.Value, all)
		default:
			settings[name] = variable.Value
		}
	}
	switch {
	case service == "gateway":
		_, err = gatewayapp.Parse(settings)
	case c.Args[0] == "serve":
		_, err = coreapp.Parse(settings)
	default: // migrate needs the database alone
		if settings["DATABASE_URL"] == "" {
			t.Error("it has no database")
		}
	}
	if err != nil {
		t.Errorf("it does not start: %v", err)
	}
	if c.Args[0] != "serve" {
		return
	}
	grace, err := time.ParseDuration(settings["FORGEQUEUE_GRACE"])
	if err != nil {
		t.Fatal(err)
	}
	notice, _ := time.ParseDuration(settings["FORGEQUEUE_DRAIN_NOTICE"])
	if given := time.Duration(pod.TerminationGracePeriodSeconds) * time.Second; given < grace+notice+5*time.Second {
		t.Errorf("it needs %v to stop and has %v", grace+notice, given)
	}
}

// settingsOf gives the types of a configuration's variables.
func settingsOf(config reflect.Type) map[string]reflect.Type {
	known := map[string]reflect.Type{}
	for field := range config.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("env"), ",")
		if name != "" && name != "-" {
			known[name] = field.Type
		} else if field.Type.Kind() == reflect.Struct {
			maps.Copy(known, settingsOf(field.Type))
		}
	}
	return known
}

// fileInPod gives what a file holds: a key of a secret that is mounted, readable by the pod's group alone.
func fileInPod(t *testing.T, pod podSpec, file string, all map[string]object) string {
	t.Helper()
	for _, mount := range pod.Containers[0].VolumeMounts {
		key, inside := strings.CutPrefix(file, mount.MountPath+"/")
		for _, volume := range pod.Volumes {
			if !inside || volume.Name != mount.Name {
				continue
			}
			if volume.Secret.DefaultMode != 0o440 || !mount.ReadOnly {
				t.Errorf("%s: mode %o, read-only %v", file, volume.Secret.DefaultMode, mount.ReadOnly)
			}
			if only := volume.Secret.Items; len(only) > 0 && (len(only) != 1 || only[0].Key != key || only[0].Path != key) {
				t.Errorf("%s is not what is mounted: %v", file, only)
			}
			for _, one := range all {
				if text, ok := one.Data[key]; ok && one.Kind == "Secret" && one.Metadata.Name == volume.Secret.SecretName {
					return strings.TrimSuffix(string(text), "\n")
				}
			}
		}
	}
	t.Errorf("%s is in no secret that is mounted", file)
	return ""
}

// checkPorts: the ports are those that the service listens on, and what probes ask for is in its API.
func checkPorts(t *testing.T, c container) {
	t.Helper()
	listens := map[string]string{"http": "FORGEQUEUE_CORE_LISTEN", "metrics": "FORGEQUEUE_CORE_METRICS_LISTEN"}
	if c.Name == "gateway" {
		listens = map[string]string{"http": "FORGEQUEUE_LISTEN", "metrics": "FORGEQUEUE_METRICS_LISTEN"}
	}
	ports := map[string]string{}
	for _, port := range c.Ports {
		ports[listens[port.Name]] = "0.0.0.0:" + strconv.Itoa(port.ContainerPort)
	}
	for _, variable := range c.Env {
		if port, ok := ports[variable.Name]; ok && port != variable.Value {
			t.Errorf("%s is %s, and the port is %s", variable.Name, variable.Value, port)
		}
	}
	if len(ports) != 2 {
		t.Errorf("its ports are %v", ports)
	}
	var document struct{ Paths map[string]any }
	text, err := os.ReadFile(filepath.Join(top, "api-docs", c.Name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"startup": "/livez", "readiness": "/readyz", "liveness": "/livez"} {
		probe := map[string]*struct{ HTTPGet struct{ Path, Port string } }{
			"startup": c.StartupProbe, "readiness": c.ReadinessProbe, "liveness": c.LivenessProbe,
		}[name]
		if probe == nil || probe.HTTPGet.Path != want || probe.HTTPGet.Port != "http" || document.Paths[want] == nil {
			t.Errorf("the %s probe is %+v", name, probe)
		}
	}
}

// checkWhoNamesWhom: what refers to something by name or label finds it.
func checkWhoNamesWhom(t *testing.T, all map[string]object) {
	t.Helper()
	for name, one := range all {
		want := map[string]any{"app.kubernetes.io/name": path.Base(strings.ReplaceAll(name, " ", "/"))}
		switch one.Kind {
		case "Service":
			if !reflect.DeepEqual(one.Spec.Selector, want) {
				t.Errorf("%s selects %v", name, one.Spec.Selector)
			}
		case "Deployment", "PodDisruptionBudget":
			if !reflect.DeepEqual(one.Spec.Selector["matchLabels"], any(want)) {
				t.Errorf("%s selects %v", name, one.Spec.Selector)
			}
		case "NetworkPolicy":
			if labels := one.Spec.PodSelector.MatchLabels; len(labels) > 0 && labels["app.kubernetes.io/name"] != one.Metadata.Name {
				t.Errorf("%s selects %v", name, labels)
			}
		}
	}
	if nothing := all["NetworkPolicy nothing"].Spec; len(nothing.PodSelector.MatchLabels) > 0 || !slices.Equal(nothing.PolicyTypes, []string{"Ingress", "Egress"}) {
		t.Errorf("not everything is forbidden at first: %+v", nothing)
	}
	if all["Service core"].Spec.ClusterIP != "None" {
		t.Error("core's name does not resolve to its pods")
	}
	scaler := all["HorizontalPodAutoscaler gateway"].Spec
	scaled := all[scaler.ScaleTargetRef.Kind+" "+scaler.ScaleTargetRef.Name].Spec
	if scaled.Replicas != nil || len(scaled.Template.Spec.Containers) == 0 {
		t.Fatalf("the autoscaler scales %+v, which has %v replicas by itself", scaler.ScaleTargetRef, scaled.Replicas)
	}
	for _, variable := range scaled.Template.Spec.Containers[0].Env {
		switch variable.Name {
		case "FORGEQUEUE_REPLICAS":
			if variable.Value != strconv.Itoa(scaler.MinReplicas) {
				t.Errorf("gateways assume %s of them, and there are at least %d", variable.Value, scaler.MinReplicas)
			}
		case "FORGEQUEUE_CORE_URL":
			if variable.Value != "http://core:8081" {
				t.Errorf("gateways call %s", variable.Value)
			}
		}
	}
	for _, private := range []string{"key_secret", "operator_key", "console_secret"} {
		if all["Secret core"].Data[private] != nil {
			t.Errorf("core gets %s", private)
		}
	}
	if all["Secret gateway"].Data["database_url"] != nil {
		t.Error("gateways get the database")
	}
}
