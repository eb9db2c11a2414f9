import type { PlainProject } from './project-options.ts';

export function goController({ apiVersion, kind, name, own, plural, root }: PlainProject): string {
  const selection = own
    ? `	// The controller's own writes of the status wake no key.
	"for":  map[string]any{"apiVersion": "${apiVersion}", "kind": "${kind}", "predicate": map[string]string{"changed": "generation"}},`
    : `	"for": map[string]any{
		"apiVersion": "${apiVersion}", "kind": "${kind}",
		"labelSelector": map[string]any{"matchLabels": map[string]string{"${name}": "true"}},
	},`;
  const status = own
    ? `\n		map[string]any{"apiVersion": "${apiVersion}", "kind": "${kind}", "subresource": "status", "verbs": []string{"patch"}},`
    : '';
  const what = own ? 'the text' : 'the labels';
  const imports = own
    ? '"context"\n	"fmt"\n	"maps"\n	"net/http"\n	"os"\n	"strings"\n	"time"'
    : '"context"\n	"fmt"\n	"maps"\n	"net/http"\n	"os"\n	"strings"';
  const spec = own
    ? `
	Spec       struct {
		Text  string \`json:"text"\`
		Times int    \`json:"times,omitempty"\`
	} \`json:"spec"\`
	Status struct {
		Conditions []condition \`json:"conditions,omitempty"\`
	} \`json:"status"\``
    : '';
  const condition = own
    ? `
type condition struct {
	Type               string \`json:"type"\`
	Status             string \`json:"status"\`
	ObservedGeneration int64  \`json:"observedGeneration"\`
	LastTransitionTime string \`json:"lastTransitionTime"\`
	Reason             string \`json:"reason"\`
	Message            string \`json:"message"\`
}
`
    : '';
  const run = own
    ? `	data := map[string]string{"text": strings.Repeat(found.Spec.Text, max(1, found.Spec.Times))}
	if err := keepChild(ctx, found.APIVersion, found.Kind, found.Metadata, key.Name+"-text", data, cache, api); err != nil {
		return none, err
	}
	return none, tell(ctx, path, found, api)`
    : `	data := map[string]string{}
	for label, value := range found.Metadata.Labels {
		// A key of a ConfigMap has no slash.
		data[strings.Replace(label, "/", "_", 1)] = value
	}
	return none, keepChild(ctx, found.APIVersion, found.Kind, found.Metadata, key.Name+"-labels", data, cache, api)`;
  const tell = own
    ? `
// tell says in the status that all is well, unless it is said there.
func tell(ctx context.Context, path string, found object, api *levelhook.API) error {
	ready := condition{"Ready", "True", found.Metadata.Generation, time.Now().UTC().Format(time.RFC3339), "Written", ""}
	conditions := []condition{}
	for _, before := range found.Status.Conditions {
		if before.Type != ready.Type {
			conditions = append(conditions, before)
			continue
		}
		if before.ObservedGeneration == ready.ObservedGeneration {
			return nil
		}
		ready.LastTransitionTime = before.LastTransitionTime
	}
	// With the UID in it, the patch changes no other object that has got the name.
	return api.MergePatch(ctx, path+"/status", map[string]any{
		"metadata": map[string]string{"uid": found.Metadata.UID},
		"status":   map[string]any{"conditions": append(conditions, ready)},
	})
}
`
    : '';
  return `// Keeps a ConfigMap, NAME-${own ? 'text' : 'labels'}, with ${what} of each ${kind}${own ? ', and says so in the status' : ` that has the label \`${name}: "true"\``}.
package main

import (
	${imports}

	"${name}/levelhook"
)

// The answer to a GET. \`levelhook manifest\` prints the rights of its writes.
var description = map[string]any{
	"name": "${name}",
${selection}
	"owns": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}},
	"writes": []any{
		map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "verbs": []string{"create", "patch"}},${status}
	},
}

type metadata struct {
	Namespace         string            \`json:"namespace,omitempty"\`
	Name              string            \`json:"name"\`
	UID               string            \`json:"uid,omitempty"\`
	Generation        int64             \`json:"generation,omitempty"\`
	DeletionTimestamp string            \`json:"deletionTimestamp,omitempty"\`
	Labels            map[string]string \`json:"labels,omitempty"\`
	OwnerReferences   []owner           \`json:"ownerReferences,omitempty"\`
}

type owner struct {
	APIVersion         string \`json:"apiVersion"\`
	Kind               string \`json:"kind"\`
	Name               string \`json:"name"\`
	UID                string \`json:"uid"\`
	Controller         bool   \`json:"controller,omitempty"\`
	BlockOwnerDeletion bool   \`json:"blockOwnerDeletion,omitempty"\`
}

// object is a ${kind}, as far as the controller needs it.
type object struct {
	APIVersion string   \`json:"apiVersion"\`
	Kind       string   \`json:"kind"\`
	Metadata   metadata \`json:"metadata"\`${spec}
}
${condition}
type configMap struct {
	APIVersion string            \`json:"apiVersion"\`
	Kind       string            \`json:"kind"\`
	Metadata   metadata          \`json:"metadata"\`
	Data       map[string]string \`json:"data"\`
}

func main() {
	if err := levelhook.Serve(levelhook.Function{Description: description, Reconcile: reconcile}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// reconcile may run at any time, again and again, and decides by the state of the objects alone.
func reconcile(ctx context.Context, key levelhook.Key, cache *levelhook.Cache, api *levelhook.API) (levelhook.Result, error) {
	none := levelhook.Result{}
	path := fmt.Sprintf("${root}/namespaces/%s/${plural}/%s", key.Namespace, key.Name)
	var found object
	// The garbage collector deletes the ConfigMap with its ${kind}.
	if there, err := cache.Get(ctx, path, &found); err != nil || !there || found.Metadata.DeletionTimestamp != "" {
		return none, err
	}
${run}
}

// keepChild writes the ConfigMap with this name, of which the found object is the owner.
func keepChild(ctx context.Context, apiVersion, kind string, of metadata, name string, data map[string]string, cache *levelhook.Cache, api *levelhook.API) error {
	path := fmt.Sprintf("/api/v1/namespaces/%s/configmaps", of.Namespace)
	var child configMap
	there, err := cache.Get(ctx, path+"/"+name, &child)
	if err != nil {
		return err
	}
	if !there {
		reference := owner{apiVersion, kind, of.Name, of.UID, true, true}
		child = configMap{"v1", "ConfigMap", metadata{Name: name, OwnerReferences: []owner{reference}}, data}
		return api.Send(ctx, http.MethodPost, path, "application/json", child)
	}
	for _, each := range child.Metadata.OwnerReferences {
		if !each.Controller || each.UID != of.UID {
			continue
		}
		if maps.Equal(child.Data, data) {
			return nil
		}
		return api.Send(ctx, http.MethodPatch, path+"/"+name, "application/json-patch+json", []any{
			map[string]any{"op": "test", "path": "/metadata/uid", "value": child.Metadata.UID},
			map[string]any{"op": "add", "path": "/data", "value": data},
		})
	}
	return fmt.Errorf("the ConfigMap %s belongs to another owner", name)
}
${tell}`;
}

export function goTest({ name, object, own, plural, root }: PlainProject): string {
  const [child, data] = own ? ['hello-text', '{"text": "Hello. "}'] : ['hello-labels', `{"${name}": "true"}`];
  const patch = own
    ? ` else if request.Method == http.MethodPatch {
		maps.Copy(o.found[path], map[string]any{"status": body["status"]})
	}`
    : '';
  return `package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"${name}/levelhook"
)

const (
	hello = "${root}/namespaces/default/${plural}/hello"
	child = "/api/v1/namespaces/default/configmaps/${child}"
)

func TestMakesTheConfigMapAndThenLeavesItAlone(t *testing.T) {
	api := memoryApiserver(t)
	if err := api.run(t); err != nil {
		t.Fatal(err)
	}
	if data, want := api.found[child]["data"], any(map[string]any${data}); !reflect.DeepEqual(data, want) {
		t.Errorf("got %v, want %v", data, want)
	}
	api.writes = 0
	if err := api.run(t); err != nil || api.writes > 0 {
		t.Errorf("%d writes, %v", api.writes, err)
	}
}

func TestDoesNotTouchTheConfigMapOfAnotherOwner(t *testing.T) {
	api := memoryApiserver(t)
	api.found[child] = map[string]any{"data": map[string]any{"mine": "yes"}}
	if err := api.run(t); err == nil || api.writes > 0 {
		t.Errorf("%d writes, %v", api.writes, err)
	}
}

// objects is an apiserver in memory, as far as the controller needs one.
type objects struct {
	found  map[string]map[string]any
	writes int
}

// memoryApiserver serves an object at the address that levelhook.Connect reads.
func memoryApiserver(t *testing.T) *objects {
	api := &objects{found: map[string]map[string]any{}}
	object := map[string]any{}
	if err := json.Unmarshal([]byte(helloObject), &object); err != nil {
		t.Fatal(err)
	}
	maps.Copy(object["metadata"].(map[string]any), map[string]any{"uid": "1", "generation": 1})
	api.found[hello] = object
	server := httptest.NewTLSServer(api)
	t.Cleanup(server.Close)
	ca, token := filepath.Join(t.TempDir(), "ca.crt"), filepath.Join(t.TempDir(), "token")
	block := pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	for file, text := range map[string][]byte{ca: pem.EncodeToMemory(&block), token: []byte("token")} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{"SERVER": server.URL, "CA_FILE": ca, "TOKEN_FILE": token} {
		t.Setenv("KUBE_"+name, value)
	}
	return api
}

func (o *objects) run(t *testing.T) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cache, api, err := levelhook.Connect()
	if err != nil {
		t.Fatal(err)
	}
	_, err = reconcile(ctx, levelhook.Key{Namespace: "default", Name: "hello"}, cache, api)
	return err
}

func (o *objects) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	path := strings.TrimSuffix(request.URL.Path, "/status")
	body := map[string]any{}
	if request.Method != http.MethodGet {
		o.writes++
		_ = json.NewDecoder(request.Body).Decode(&body)
	}
	if request.Method == http.MethodPost {
		path += "/" + body["metadata"].(map[string]any)["name"].(string)
		o.found[path] = body
	}${patch}
	if o.found[path] == nil {
		answer.WriteHeader(http.StatusNotFound)
	}
	_ = json.NewEncoder(answer).Encode(o.found[path])
}

const helloObject = \`${object}\`
`;
}

export function goClusterTest({ own, name, plural, root }: PlainProject): string {
  const data = own ? '{"text": "Hello. "}' : `{"${name}": "true"}`;
  return `//go:build cluster

package main

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"testing"
	"time"

	"${name}/levelhook"
)

// \`npm run test:cluster\` starts an apiserver, the gateway and the controller, and then runs this test.
func TestMakesTheConfigMapInACluster(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cache, api, err := levelhook.Connect()
	if err != nil {
		t.Fatal(err)
	}
	path := "${root}/namespaces/default/${plural}"
	if err := api.Send(ctx, http.MethodPost, path, "application/json", json.RawMessage(helloObject)); err != nil {
		t.Fatal(err)
	}
	var found configMap
	for there := false; !there; time.Sleep(100 * time.Millisecond) {
		if there, err = cache.Get(ctx, child, &found); err != nil {
			t.Fatal(err)
		}
	}
	if want := map[string]string${data}; !maps.Equal(found.Data, want) {
		t.Errorf("got %v, want %v", found.Data, want)
	}
}
`;
}
