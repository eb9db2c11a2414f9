package levelhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	pageSize = "500"
	// A cache that is being filled, or a gateway that starts, asks for patience.
	maxPatience = 5 * time.Second
	// How often a list that cannot be continued begins anew.
	maxRestarts = 3
)

// errExpired is the gateway's 410: a continued list must begin anew.
var errExpired = errors.New("the list expired")

// Cache reads what the gateway caches, with the address and the token of one trigger.
type Cache struct {
	client     *http.Client
	url, token string
}

// Get reads one object, by its path in the apiserver, into `into`. It returns false if the object does not exist.
func (c *Cache) Get(ctx context.Context, path string, into any) (bool, error) {
	return c.read(ctx, path, into)
}

// List calls `each` with the objects of a list, page by page, and `restart` before the list begins anew.
func (c *Cache) List(ctx context.Context, path string, query url.Values, restart func(), each func(json.RawMessage) error) error {
	for attempt := 1; ; attempt++ {
		restart()
		err := c.pages(ctx, path, query, each)
		if !errors.Is(err, errExpired) || attempt > maxRestarts {
			return err
		}
	}
}

func (c *Cache) pages(ctx context.Context, path string, query url.Values, each func(json.RawMessage) error) error {
	query.Set("limit", pageSize)
	query.Del("continue")
	for {
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []json.RawMessage `json:"items"`
			// Objects that are too large for the cache, by name.
			KeptOut []struct{ Key, Reason string } `json:"keptOut"`
		}
		found, err := c.read(ctx, path+"?"+query.Encode(), &page)
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("%s is not served", path)
		}
		if len(page.KeptOut) > 0 {
			return fmt.Errorf("%s is not in the cache: %s", page.KeptOut[0].Key, page.KeptOut[0].Reason)
		}
		for _, item := range page.Items {
			if err := each(item); err != nil {
				return err
			}
		}
		if page.Metadata.Continue == "" {
			return nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
}

// read sends a GET, and again if the gateway asks for patience. It returns false for 404.
func (c *Cache) read(ctx context.Context, path string, into any) (bool, error) {
	if c.url == "" {
		return false, errors.New("the trigger names no cache: the gateway sends a token over https or loopback only")
	}
	patience, cancel := context.WithTimeout(ctx, maxPatience)
	defer cancel()
	for {
		status, header, body, err := c.send(ctx, path)
		if err != nil {
			return false, err
		}
		switch status {
		case http.StatusOK:
			return true, json.Unmarshal(body, into)
		case http.StatusNotFound:
			return false, nil
		case http.StatusGone:
			return false, errExpired
		}
		seconds, err := strconv.Atoi(header.Get("retry-after"))
		if err != nil || patience.Err() != nil {
			return false, fmt.Errorf("the cache answered %d: %s", status, message(body))
		}
		select {
		case <-time.After(time.Duration(seconds) * time.Second):
		case <-patience.Done():
			return false, fmt.Errorf("the cache answered %d: %s", status, message(body))
		}
	}
}

func (c *Cache) send(ctx context.Context, path string) (int, http.Header, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	if err != nil {
		return 0, nil, nil, err
	}
	request.Header.Set("authorization", "Bearer "+c.token)
	request.Header.Set("accept", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return 0, nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, response.Header, body, err
}

// message is that of a Kubernetes Status.
func message(body []byte) string {
	var status struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &status) == nil && status.Message != "" {
		return status.Message
	}
	return "without a message"
}
