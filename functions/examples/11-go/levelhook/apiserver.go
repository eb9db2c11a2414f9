package levelhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// ErrUnanswered marks a write that may have been done: its answer did not come, or does not tell.
var ErrUnanswered = errors.New("a write got no answer")

// cluster is how to reach the apiserver.
type cluster struct {
	client            *http.Client
	server, tokenFile string
}

// API writes to the apiserver for one run, and remembers what it acknowledged.
type API struct {
	cluster *cluster
	mutex   sync.Mutex
	writes  []Write
}

// MergePatch changes an object until the deadline of ctx.
func (a *API) MergePatch(ctx context.Context, path string, patch any) error {
	return a.Send(ctx, http.MethodPatch, path, "application/merge-patch+json", patch)
}

// Send writes until the deadline of ctx: POST creates, PUT replaces, PATCH changes an object.
func (a *API) Send(ctx context.Context, method, path, contentType string, object any) error {
	written, err := a.cluster.send(ctx, method, path, contentType, object)
	if err != nil {
		return err
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.writes = append(a.writes, written)
	return nil
}

// Delete deletes the very object that is named: not another one of its name.
func (a *API) Delete(ctx context.Context, path string, object Write) error {
	options := map[string]any{
		"apiVersion": "v1", "kind": "DeleteOptions",
		"preconditions": map[string]string{"uid": object.UID},
	}
	if _, err := a.cluster.send(ctx, http.MethodDelete, path, "application/json", options); err != nil {
		return err
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	object.ResourceVersion, object.Deleted = "", true
	a.writes = append(a.writes, object)
	return nil
}

func (a *API) acknowledged() []Write {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return slices.Clone(a.writes)
}

func (a *cluster) send(ctx context.Context, method, path, contentType string, object any) (Write, error) {
	body, err := json.Marshal(object)
	if err != nil {
		return Write{}, err
	}
	// The file is rotated, so it is read each time.
	token, err := os.ReadFile(a.tokenFile)
	if err != nil {
		return Write{}, err
	}
	if err := ctx.Err(); err != nil {
		return Write{}, err
	}
	deadline, _ := ctx.Deadline()
	// The apiserver gives up at the deadline, too.
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	target := fmt.Sprintf("%s%s%stimeout=%dms", a.server, path, separator, max(1, time.Until(deadline).Milliseconds()))
	request, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return Write{}, err
	}
	request.Header.Set("content-type", contentType)
	request.Header.Set("authorization", "Bearer "+strings.TrimSpace(string(token)))
	response, err := a.client.Do(request)
	if err != nil {
		return Write{}, fmt.Errorf("%w: %w", ErrUnanswered, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 500 {
		return Write{}, fmt.Errorf("%w: %s: %d %s", ErrUnanswered, path, response.StatusCode, message(answer))
	}
	if response.StatusCode >= 300 {
		return Write{}, fmt.Errorf("%s: %d %s", path, response.StatusCode, message(answer))
	}
	var written struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Namespace, Name, UID, ResourceVersion string
		} `json:"metadata"`
	}
	if err := json.Unmarshal(answer, &written); err != nil {
		return Write{}, fmt.Errorf("%w: %w", ErrUnanswered, err)
	}
	of := written.Metadata
	return Write{
		APIVersion: written.APIVersion, Kind: written.Kind,
		Namespace: of.Namespace, Name: of.Name, UID: of.UID, ResourceVersion: of.ResourceVersion,
	}, nil
}
