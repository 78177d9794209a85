package main

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
)

// notes is what an installation prints.
type notes struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// rendered are the objects of a chart as `helm install RELEASE` in the namespace forgequeue makes them, hooks among
// them, and its notes. The schema of values is applied. A template that names a value that is not there is an error.
func rendered(folder, release, values string) ([]any, error) {
	chart, err := loader.Load(folder)
	if err != nil {
		return nil, err
	}
	if err := chart.Validate(); err != nil {
		return nil, err
	}
	given, err := chartutil.ReadValuesFile(values)
	if err != nil {
		return nil, err
	}
	options := chartutil.ReleaseOptions{Name: release, Namespace: "forgequeue", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, given, options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.Render(chart, all)
	if err != nil {
		return nil, err
	}
	var objects []any
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch {
		case path.Base(name) == "NOTES.txt":
			objects = append(objects, notes{Kind: "Notes", Text: files[name]})
			continue
		case strings.HasPrefix(path.Base(name), "_"):
			continue
		}
		for _, text := range releaseutil.SplitManifests(files[name]) {
			object, err := decoded([]byte(text))
			if err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", name, err, text)
			}
			objects = append(objects, object)
		}
	}
	return objects, nil
}
