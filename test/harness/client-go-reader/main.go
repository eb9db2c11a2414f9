// Reads a namespace with client-go's own clients, as any Go program would, and prints what it was given: run against an
// apiserver and against the cache API, it prints the same.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/pager"
)

type reader struct {
	namespace string
	seen      []string
}

func (r *reader) say(format string, values ...any) {
	r.seen = append(r.seen, fmt.Sprintf(format, values...))
}

// names tells what a list holds, in its order.
func (r *reader) names(what string, list runtime.Object, err error) {
	if err != nil {
		r.say("%s: %v (not found %t, forbidden %t, bad %t)", what, err, errors.IsNotFound(err), errors.IsForbidden(err), errors.IsBadRequest(err))
		return
	}
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		if err == nil {
			r.say("%s: %s/%s %s %v", what, object.GetNamespace(), object.GetName(), object.GetResourceVersion(), object.GetLabels())
		}
		return err
	})
}

func (r *reader) read(ctx context.Context, config *rest.Config) error {
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	list, err := dynamicClient.Resource(configMaps).Namespace(r.namespace).List(ctx, metav1.ListOptions{})
	r.names("dynamic", list, err)
	list, err = dynamicClient.Resource(configMaps).Namespace(r.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app in (x,y)", ResourceVersion: "0"})
	r.names("selected", list, err)
	list, err = dynamicClient.Resource(configMaps).Namespace(r.namespace).List(ctx, metav1.ListOptions{LabelSelector: "a===b"})
	r.names("wrong", list, err)
	list, err = dynamicClient.Resource(secrets).Namespace(r.namespace).List(ctx, metav1.ListOptions{})
	r.names("secrets", list, err)
	object, err := dynamicClient.Resource(configMaps).Namespace(r.namespace).Get(ctx, "one", metav1.GetOptions{})
	if err != nil {
		return err
	}
	r.say("one: %v", object.Object["data"])
	_, err = dynamicClient.Resource(configMaps).Namespace(r.namespace).Get(ctx, "nope", metav1.GetOptions{})
	r.say("nope: %v, not found %t", err, errors.IsNotFound(err))

	pages := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) {
		return dynamicClient.Resource(configMaps).Namespace(r.namespace).List(ctx, options)
	}))
	pages.PageSize = 2
	paged, _, err := pages.List(ctx, metav1.ListOptions{})
	r.names("paged", paged, err)

	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	partial, err := metadataClient.Resource(configMaps).Namespace(r.namespace).List(ctx, metav1.ListOptions{})
	r.names("metadata", partial, err)

	discoveryClient, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	resources, err := discoveryClient.ServerResourcesForGroupVersion("v1")
	if err != nil {
		return err
	}
	for _, resource := range resources.APIResources {
		if resource.Name == "configmaps" || resource.Name == "pods" {
			r.say("resource: %s %s %t %v", resource.Name, resource.Kind, resource.Namespaced, resource.ShortNames)
		}
	}
	version, err := discoveryClient.ServerVersion()
	if err != nil {
		return err
	}
	r.say("version: %s", version.GitVersion)
	return nil
}

func run() error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		return err
	}
	r := &reader{namespace: os.Args[2]}
	// As JSON, and as those ask that would rather have protobuf.
	for _, accept := range []string{"", "application/vnd.kubernetes.protobuf,application/json"} {
		config.AcceptContentTypes = accept
		if err := r.read(context.Background(), config); err != nil {
			return err
		}
	}
	sort.Strings(r.seen)
	return json.NewEncoder(os.Stdout).Encode(r.seen)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
