// Command kubernetes builds the kustomizations in the folders that it is given, decodes each object strictly
// into its type of the Kubernetes API, so that an unknown or misplaced field is an error, and writes all of them
// as JSON: an object for each folder, with the objects in it. It needs no cluster and no network. What only a
// server knows it does not check: defaults, admission, and rules between fields.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// types are those that the manifests may use.
var types = map[string]func() any{
	"v1/Namespace":                           func() any { return &corev1.Namespace{} },
	"v1/Secret":                              func() any { return &corev1.Secret{} },
	"v1/Service":                             func() any { return &corev1.Service{} },
	"apps/v1/Deployment":                     func() any { return &appsv1.Deployment{} },
	"batch/v1/Job":                           func() any { return &batchv1.Job{} },
	"policy/v1/PodDisruptionBudget":          func() any { return &policyv1.PodDisruptionBudget{} },
	"networking.k8s.io/v1/NetworkPolicy":     func() any { return &networkingv1.NetworkPolicy{} },
	"autoscaling/v2/HorizontalPodAutoscaler": func() any { return &autoscalingv2.HorizontalPodAutoscaler{} },
}

func main() {
	built := map[string][]any{}
	for _, folder := range os.Args[1:] {
		objects, err := build(folder)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", folder, err)
			os.Exit(1)
		}
		built[folder] = objects
	}
	if err := json.NewEncoder(os.Stdout).Encode(built); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func build(folder string) ([]any, error) {
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return nil, err
	}
	var objects []any
	for _, one := range all.Resources() {
		kind := one.GetApiVersion() + "/" + one.GetKind()
		made, ok := types[kind]
		if !ok {
			return nil, fmt.Errorf("%s %s: add its type to this program", kind, one.GetName())
		}
		text, err := one.AsYAML()
		if err != nil {
			return nil, err
		}
		object := made()
		if err := yaml.UnmarshalStrict(text, object); err != nil {
			return nil, fmt.Errorf("%s %s: %w", kind, one.GetName(), err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}
