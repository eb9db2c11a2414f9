// A levelhook function in Go. For every ServiceAccount that is labelled `count: pods` it keeps the number of Pods that
// use it in an annotation. The folder levelhook has the rest; the README tells how to run it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strconv"

	"levelhook.dev/examples/pod-count/levelhook"
)

const (
	annotation = "example.levelhook.dev/pods"
	bySA       = "field:spec.serviceAccountName"
)

func main() {
	if err := levelhook.Serve(levelhook.Function{Description: description, Reconcile: reconcile}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The answer to a GET. Events of a ServiceAccount wake its own key, and events of a Pod that of its ServiceAccount.
var description = map[string]any{
	"name": "pod-count",
	"for": map[string]any{
		"apiVersion": "v1", "kind": "ServiceAccount",
		"labelSelector": map[string]any{"matchLabels": map[string]string{"count": "pods"}},
	},
	"watches": []any{map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"map": map[string]string{"by": "field", "path": "spec.serviceAccountName"},
	}},
	"writes":         []any{map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "verbs": []string{"patch"}}},
	"indexes":        []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "index": bySA}},
	"timeoutSeconds": 10,
	"concurrency":    10,
	"maxBatch":       5,
}

// reconcile keeps the number of Pods that use a ServiceAccount in an annotation of it. It may run at any time, again
// and again, and decides by the state of the objects alone.
func reconcile(ctx context.Context, key levelhook.Key, cache *levelhook.Cache, api *levelhook.API) (levelhook.Result, error) {
	none := levelhook.Result{}
	namespace := "/api/v1/namespaces/" + url.PathEscape(key.Namespace)
	path := namespace + "/serviceaccounts/" + url.PathEscape(key.Name)
	var account struct {
		Metadata struct {
			UID               string            `json:"uid"`
			DeletionTimestamp string            `json:"deletionTimestamp"`
			Annotations       map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	found, err := cache.Get(ctx, path, &account)
	if err != nil || !found || account.Metadata.DeletionTimestamp != "" {
		return none, err
	}
	pods := 0
	query := url.Values{"levelhook-index": {bySA + "=" + key.Name}}
	err = cache.List(ctx, namespace+"/pods", query, func() { pods = 0 }, func(item json.RawMessage) error {
		var pod struct {
			Status struct {
				Phase string `json:"phase"`
			} `json:"status"`
		}
		err := json.Unmarshal(item, &pod)
		if pod.Status.Phase != "Succeeded" && pod.Status.Phase != "Failed" {
			pods++
		}
		return err
	})
	if err != nil || account.Metadata.Annotations[annotation] == strconv.Itoa(pods) {
		return none, err
	}
	// With the UID in it, the patch changes no other object that has got the name meanwhile.
	metadata := map[string]any{
		"uid":         account.Metadata.UID,
		"annotations": map[string]string{annotation: strconv.Itoa(pods)},
	}
	return none, api.MergePatch(ctx, path, map[string]any{"metadata": metadata})
}
