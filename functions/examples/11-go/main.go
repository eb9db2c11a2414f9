package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
)

const (
	controllerName = "pod-count"
	annotation     = "example.levelhook.dev/pods"
	bySA           = "field:spec.serviceAccountName"
)

// The answer to a GET. Events of a ServiceAccount wake its own key, and events of a Pod that of its ServiceAccount.
var description = map[string]any{
	"version": contractVersion,
	"name":    controllerName,
	"for": map[string]any{
		"apiVersion": "v1", "kind": "ServiceAccount",
		"labelSelector": map[string]any{"matchLabels": map[string]string{"count": "pods"}},
	},
	"watches": []any{map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"map": map[string]string{"by": "field", "path": "spec.serviceAccountName"},
	}},
	"indexes":        []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "index": bySA}},
	"timeoutSeconds": 10,
	"concurrency":    10,
	"maxBatch":       5,
}

// run reconciles one key and says how that ended.
func run(ctx context.Context, request request, cache *cache, api *apiserver) result {
	writes, err := reconcile(ctx, request, cache, api)
	switch {
	case err == nil:
		return result{Status: "done", Writes: writes}
	case errors.Is(err, errUnanswered):
		return result{Status: "unknown", Message: err.Error()}
	default:
		return result{Status: "error", Message: err.Error(), Writes: writes}
	}
}

// reconcile keeps the number of Pods that use a ServiceAccount in an annotation of it. It may run at any time, again
// and again, and decides by the state of the objects alone.
func reconcile(ctx context.Context, key request, cache *cache, api *apiserver) ([]write, error) {
	namespace := "/api/v1/namespaces/" + url.PathEscape(key.Namespace)
	path := namespace + "/serviceaccounts/" + url.PathEscape(key.Name)
	var account struct {
		Metadata struct {
			UID               string            `json:"uid"`
			DeletionTimestamp string            `json:"deletionTimestamp"`
			Annotations       map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	found, err := cache.get(ctx, path, &account)
	if err != nil || !found || account.Metadata.DeletionTimestamp != "" {
		return nil, err
	}
	pods := 0
	query := url.Values{"levelhook-index": {bySA + "=" + key.Name}}
	err = cache.list(ctx, namespace+"/pods", query, func() { pods = 0 }, func(item json.RawMessage) error {
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
		return nil, err
	}
	// With the UID in it, the patch changes no other object that has got the name meanwhile.
	metadata := map[string]any{
		"uid":         account.Metadata.UID,
		"annotations": map[string]string{annotation: strconv.Itoa(pods)},
	}
	written, err := api.mergePatch(ctx, path, map[string]any{"metadata": metadata})
	if err != nil {
		return nil, err
	}
	return []write{written}, nil
}
