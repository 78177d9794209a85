package deploy_test

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// cellsOfKubernetes are those of the component cells, the first as the page has it.
func cellsOfKubernetes(t *testing.T) map[string]string {
	t.Helper()
	_, rest, found := strings.Cut(pageOfKubernetes(t), "echo '")
	list, _, ended := strings.Cut(rest, "' >cells/secrets/cells.json")
	if !found || !ended {
		t.Fatal("the page makes no file of cells")
	}
	return map[string]string{"cells.json": list, "second": "postgres://core:x@second.example.com/forgequeue?sslmode=verify-full"}
}

func pageOfKubernetes(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, manifests, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// overlayOfKubernetes is the page's overlay with cells, of a folder.
func overlayOfKubernetes(t *testing.T, folder string) string {
	t.Helper()
	for part := range strings.SplitSeq(pageOfKubernetes(t), "```yaml\n") {
		if text, _, _ := strings.Cut(part, "```"); strings.Contains(text, "[../kubernetes/cells]") {
			return strings.Replace(text, "[../kubernetes]", "["+path.Join("../kubernetes", folder)+"]", 1)
		}
	}
	t.Fatal("the page has no overlay with cells")
	return ""
}

// checkCells: the component adds a secret, which core and the job can read, and nothing else.
func checkCells(t *testing.T, all, withCells map[string]object) {
	t.Helper()
	if len(withCells) != len(all)+1 || withCells["Secret cells"].Kind == "" {
		t.Errorf("with cells there are %v", slices.Sorted(maps.Keys(withCells)))
	}
	cores := ""
	for _, variable := range withCells["Deployment gateway"].Spec.Template.Spec.Containers[0].Env {
		if variable.Name == "FORGEQUEUE_CORE_URL" {
			cores = variable.Value
		}
	}
	if cores != "first=http://core:8081/cells/first,second=http://core:8081/cells/second" {
		t.Errorf("gateways call %s", cores)
	}
	for _, name := range []string{"Deployment core", "Job migrate"} {
		pod := withCells[name].Spec.Template.Spec
		if len(pod.Containers) != 1 || len(pod.Containers[0].Env) != len(all[name].Spec.Template.Spec.Containers[0].Env)+1 {
			t.Fatalf("%s with cells: %+v", name, pod)
		}
		checkHardening(t, pod)
		checkSettings(t, pod, withCells)
	}
}

// cellsInPod gives a copy of the file of cells on this machine, with the files that it names.
func cellsInPod(t *testing.T, pod podSpec, file string, all map[string]object) string {
	t.Helper()
	dir := t.TempDir()
	list := fileInPod(t, pod, file, all)
	for _, quoted := range regexp.MustCompile(`"/[^"]*"`).FindAllString(list, -1) {
		inPod := strings.Trim(quoted, `"`)
		writeAll(t, dir, map[string]string{path.Base(inPod): fileInPod(t, pod, inPod, all)})
		list = strings.ReplaceAll(list, inPod, filepath.Join(dir, path.Base(inPod)))
	}
	writeAll(t, dir, map[string]string{"cells.json": list})
	return filepath.Join(dir, "cells.json")
}
