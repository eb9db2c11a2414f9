package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// errUnanswered marks a write that may have been done: its answer did not come, or does not tell.
var errUnanswered = errors.New("a write got no answer")

// apiserver writes to the cluster.
type apiserver struct {
	client            *http.Client
	server, tokenFile string
}

// mergePatch changes an object until the deadline of ctx and returns what the apiserver acknowledged.
func (a *apiserver) mergePatch(ctx context.Context, path string, patch any) (write, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return write{}, err
	}
	// The file is rotated, so it is read each time.
	token, err := os.ReadFile(a.tokenFile)
	if err != nil {
		return write{}, err
	}
	if err := ctx.Err(); err != nil {
		return write{}, err
	}
	deadline, _ := ctx.Deadline()
	// The apiserver gives up at the deadline, too.
	target := fmt.Sprintf("%s%s?timeout=%dms", a.server, path, max(1, time.Until(deadline).Milliseconds()))
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, target, bytes.NewReader(body))
	if err != nil {
		return write{}, err
	}
	request.Header.Set("content-type", "application/merge-patch+json")
	request.Header.Set("authorization", "Bearer "+strings.TrimSpace(string(token)))
	response, err := a.client.Do(request)
	if err != nil {
		return write{}, fmt.Errorf("%w: %w", errUnanswered, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 500 {
		return write{}, fmt.Errorf("%w: %s: %d %s", errUnanswered, path, response.StatusCode, message(answer))
	}
	if response.StatusCode >= 300 {
		return write{}, fmt.Errorf("%s: %d %s", path, response.StatusCode, message(answer))
	}
	var object struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Namespace, Name, UID, ResourceVersion string
		} `json:"metadata"`
	}
	if err := json.Unmarshal(answer, &object); err != nil {
		return write{}, fmt.Errorf("%w: %w", errUnanswered, err)
	}
	of := object.Metadata
	return write{object.APIVersion, object.Kind, of.Namespace, of.Name, of.UID, of.ResourceVersion}, nil
}
