// Command kubernetes builds the kustomizations in the folders that it is given, or renders the chart in a folder with
// each of the files of values, decodes each object strictly into its type of the Kubernetes API, so that an unknown or
// misplaced field is an error, and writes all of them as JSON: a list of objects for each argument.
//
//	kubernetes FOLDER...
//	kubernetes -chart FOLDER -release NAME VALUES...
//
// It needs no cluster and no network. What only a server knows it does not check: defaults, admission, and rules
// between fields.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

func main() {
	chart := flag.String("chart", "", "the folder of a chart")
	release := flag.String("release", "forgequeue", "the name of its release")
	flag.Parse()
	build := built
	if *chart != "" {
		build = func(values string) ([]any, error) { return rendered(*chart, *release, values) }
	}
	all := map[string][]any{}
	for _, argument := range flag.Args() {
		objects, err := build(argument)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", argument, err)
			os.Exit(1)
		}
		all[argument] = objects
	}
	if err := json.NewEncoder(os.Stdout).Encode(all); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// built are the objects of a kustomization, as kubectl apply -k applies them.
func built(folder string) ([]any, error) {
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, err
	}
	var objects []any
	for _, one := range all.Resources() {
		text, err := one.AsYAML()
		if err != nil {
			return nil, err
		}
		object, err := decoded(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.GetName(), err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// decoded is an object as its type has it.
func decoded(text []byte) (any, error) {
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(text, &head); err != nil {
		return nil, err
	}
	kind := head.APIVersion + "/" + head.Kind
	made, ok := types[kind]
	if !ok {
		return nil, fmt.Errorf("%s: add its type to this program", kind)
	}
	object := made()
	if err := yaml.UnmarshalStrict(text, object); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	return object, nil
}
