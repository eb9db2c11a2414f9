package levelhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

const (
	resultStream = "application/x-ndjson"
	maxBodyBytes = 4 << 20
)

// Function is a controller: what it tells of itself, and what it does.
type Function struct {
	// Description is the answer to a GET, without its version: see infra/contract.
	Description map[string]any
	// Reconcile brings the world one step nearer to what the object of the key asks for. It may run at any time, again
	// and again, and for several keys at once. After an error the gateway tries again.
	Reconcile func(ctx context.Context, key Key, cache *Cache, api *API) (Result, error)
}

// Result of a run that went well.
type Result struct {
	// RequeueAfterSeconds asks for another run after this time at the latest. 0 asks for none.
	RequeueAfterSeconds float64
}

// server answers the gateway's signed requests.
type server struct {
	Function
	keys        [][]byte
	cacheClient *http.Client
	cluster     *cluster
	seen        seenTriggers
}

// ended is the result of the run at a place of the trigger.
type ended struct {
	at     int
	result result
}

func (f *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(contractHeader, contractVersion)
	w.Header().Set("content-type", "application/json")
	if err := f.answer(w, r); err != nil {
		status := http.StatusInternalServerError
		var refused refusal
		if errors.As(err, &refused) {
			status = refused.status
		}
		if status == http.StatusServiceUnavailable {
			w.Header().Set("retry-after", "1")
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
	}
}

// answer returns an error only if nothing has been written.
func (f *server) answer(w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return refusal{http.StatusRequestEntityTooLarge, "the body is too large"}
	}
	if err != nil {
		return err
	}
	// Before anything parses the body.
	if err := verify(f.keys, r.Header, body, time.Now()); err != nil {
		return err
	}
	switch r.Method {
	case http.MethodGet:
		description := maps.Clone(f.Description)
		description["version"] = contractVersion
		return json.NewEncoder(w).Encode(description)
	case http.MethodPost:
		return f.reconcile(w, r, body)
	default:
		return refusal{http.StatusMethodNotAllowed, "GET and POST only"}
	}
}

func (f *server) reconcile(w http.ResponseWriter, r *http.Request, body []byte) error {
	var sent trigger
	if err := json.Unmarshal(body, &sent); err != nil {
		return refusal{http.StatusBadRequest, "the body is no trigger"}
	}
	if sent.Version != contractVersion {
		return refusal{http.StatusBadRequest, fmt.Sprintf("the trigger speaks contract %q, this function %s", sent.Version, contractVersion)}
	}
	if name := f.Description["name"]; sent.Controller != name {
		return refusal{http.StatusBadRequest, fmt.Sprintf("the trigger is for %q, and this is %s", sent.Controller, name)}
	}
	now := time.Now()
	// The wall clock decides once whether there is time left. From here on the monotonic clock counts.
	left := sent.Deadline.Sub(now.Round(0))
	if left <= 0 {
		return refusal{http.StatusConflict, "the deadline of the trigger has passed"}
	}
	if err := f.seen.add(r.Header.Get("webhook-id"), now.Add(left), now); err != nil {
		return err
	}
	left = min(left, time.Duration(sent.RemainingSeconds*float64(time.Second)))
	if len(sent.Requests) > 1 {
		// Room to answer for the runs that do not end.
		left -= min(500*time.Millisecond, left/10)
	}
	// It also ends when the gateway hangs up: then nobody reads the results.
	ctx, cancel := context.WithTimeout(r.Context(), left)
	defer cancel()
	results := f.runAll(ctx, sent)
	if len(sent.Requests) > 1 && strings.Contains(r.Header.Get("accept"), resultStream) {
		return stream(w, sent.Requests, results)
	}
	whole := make([]result, len(sent.Requests))
	for range whole {
		each := <-results
		whole[each.at] = each.result
	}
	return json.NewEncoder(w).Encode(map[string]any{"version": contractVersion, "results": whole})
}

// runAll runs all requests at the same time. The channel gets one result for each, when its run has ended or at the
// deadline of ctx.
func (f *server) runAll(ctx context.Context, sent trigger) <-chan ended {
	results := make(chan ended, len(sent.Requests))
	cache := &Cache{f.cacheClient, sent.Cache.URL, sent.Cache.Token}
	for at, key := range sent.Requests {
		done := make(chan result, 1)
		go func() { done <- f.run(ctx, key, cache) }()
		go func() {
			select {
			case result := <-done:
				results <- ended{at, result}
			case <-ctx.Done():
				results <- ended{at, result{Status: "unknown", Message: "the run did not end before the deadline"}}
			}
		}()
	}
	return results
}

// run reconciles one key and says how that ended.
func (f *server) run(ctx context.Context, key Key, cache *Cache) result {
	api := &API{cluster: f.cluster}
	done, err := f.reconciled(ctx, key, cache, api)
	switch {
	case err == nil:
		return result{Status: "done", RequeueAfterSeconds: done.RequeueAfterSeconds, Writes: api.acknowledged()}
	case errors.Is(err, ErrUnanswered):
		return result{Status: "unknown", Message: err.Error()}
	default:
		return result{Status: "error", Message: err.Error(), Writes: api.acknowledged()}
	}
}

// reconciled makes an error of a panic, which would end the process with all other runs.
func (f *server) reconciled(ctx context.Context, key Key, cache *Cache, api *API) (done Result, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	return f.Reconcile(ctx, key, cache, api)
}

// stream sends a line for each run as it ends.
func stream(w http.ResponseWriter, keys []Key, results <-chan ended) error {
	w.Header().Set("content-type", resultStream)
	flusher := http.NewResponseController(w)
	lines := json.NewEncoder(w)
	for range keys {
		each := <-results
		line := map[string]any{"run": keys[each.at].Run, "result": each.result}
		if lines.Encode(line) != nil || flusher.Flush() != nil {
			// The gateway has hung up. The status has been sent, so there is no other answer.
			return nil
		}
	}
	return nil
}
