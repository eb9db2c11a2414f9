package levelhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	contractVersion = "v1"
	contractHeader  = "levelhook-contract"
	// How far a timestamp may be off in either direction.
	tolerance = 300 * time.Second
	// As many ids of triggers are remembered.
	maxSeen = 100_000
)

// The body of the gateway's POST, as far as this function needs it. Unknown fields are ignored.
type trigger struct {
	Version          string    `json:"version"`
	Controller       string    `json:"controller"`
	Deadline         time.Time `json:"deadline"`
	RemainingSeconds float64   `json:"remainingSeconds"`
	Cache            struct {
		URL   string `json:"url"`
		Token string `json:"token"`
	} `json:"cache"`
	Requests []Key `json:"requests"`
}

// Key names the object to reconcile, and its run.
type Key struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Run       int64  `json:"run"`
}

// The outcome of one run.
type result struct {
	Status              string  `json:"status"`
	Message             string  `json:"message,omitempty"`
	RequeueAfterSeconds float64 `json:"requeueAfterSeconds,omitempty"`
	Writes              []Write `json:"writes,omitempty"`
}

// Write is an acknowledged write, as the apiserver's answer has it.
type Write struct {
	APIVersion      string `json:"apiVersion"`
	Kind            string `json:"kind"`
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name"`
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Deleted says that the object was deleted, or is being deleted.
	Deleted bool `json:"deleted,omitempty"`
}

// A request that is answered with an error status before anything is run.
type refusal struct {
	status int
	reason string
}

func (r refusal) Error() string { return r.reason }

// decodeSecrets returns the bytes of secrets that are separated by spaces or commas. Errors do not contain a secret.
func decodeSecrets(text string) ([][]byte, error) {
	var keys [][]byte
	for _, secret := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' }) {
		encoded, found := strings.CutPrefix(secret, "whsec_")
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !found || err != nil {
			return nil, errors.New(`a signing secret is "whsec_" followed by base64`)
		}
		if len(key) < 24 || len(key) > 64 {
			return nil, errors.New("a signing secret holds 24 to 64 bytes")
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("there is none, and a function accepts signed requests only")
	}
	return keys, nil
}

// verify checks the signature over the raw body. One signature that matches one key is enough, because secrets rotate.
func verify(keys [][]byte, header http.Header, body []byte, now time.Time) error {
	id, timestamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if id == "" || err != nil {
		return refusal{http.StatusUnauthorized, "the signature headers are missing"}
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > tolerance || age < -tolerance {
		return refusal{http.StatusUnauthorized, "the message is too old, or comes from the future"}
	}
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.", id, timestamp)
		mac.Write(body)
		sum := mac.Sum(nil)
		for _, candidate := range strings.Fields(header.Get("webhook-signature")) {
			encoded, found := strings.CutPrefix(candidate, "v1,")
			signature, err := base64.StdEncoding.DecodeString(encoded)
			// hmac.Equal takes the same time wherever the first difference is.
			if found && err == nil && hmac.Equal(signature, sum) {
				return nil
			}
		}
	}
	return refusal{http.StatusUnauthorized, "no signature matches"}
}

// The ids of triggers until their deadlines, so that a copy does not run. In this process only: with several replicas
// they belong in a shared store.
type seenTriggers struct {
	mutex sync.Mutex
	until map[string]time.Time
}

func (s *seenTriggers) add(id string, until, now time.Time) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.until[id].After(now) {
		return refusal{http.StatusConflict, "the trigger was received before"}
	}
	if len(s.until) >= maxSeen {
		for known, end := range s.until {
			if !end.After(now) {
				delete(s.until, known)
			}
		}
	}
	if len(s.until) >= maxSeen {
		return refusal{http.StatusServiceUnavailable, "too many triggers: no room to remember another id"}
	}
	if s.until == nil {
		s.until = map[string]time.Time{}
	}
	if latest := now.Add(2 * tolerance); until.After(latest) {
		until = latest
	}
	s.until[id] = until
	return nil
}
