package levelhook

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// The signed request of the contract, with its secrets.
func signedRequest(t *testing.T) (keys [][]byte, header http.Header, body []byte, at time.Time) {
	t.Helper()
	text, err := os.ReadFile("../../../../infra/contract/v1/examples/signed-request.json")
	if err != nil {
		t.Fatal(err)
	}
	var example struct {
		Secrets []string
		Headers map[string]string
		Body    string
	}
	if err := json.Unmarshal(text, &example); err != nil {
		t.Fatal(err)
	}
	keys, err = decodeSecrets(strings.Join(example.Secrets, " "))
	if err != nil {
		t.Fatal(err)
	}
	header = http.Header{}
	for name, value := range example.Headers {
		header.Set(name, value)
	}
	return keys, header, []byte(example.Body), time.Unix(1795255200, 0)
}

func statusOf(err error) int {
	var refused refusal
	if errors.As(err, &refused) {
		return refused.status
	}
	return 0
}

func TestVerifiesTheContractsExample(t *testing.T) {
	keys, header, body, at := signedRequest(t)
	for name, keys := range map[string][][]byte{"both": keys, "the old": keys[:1], "the new": keys[1:]} {
		if err := verify(keys, header, body, at); err != nil {
			t.Errorf("with %s secret: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"another body":   verify(keys, header, append(body, ' '), at),
		"too old":        verify(keys, header, body, at.Add(301*time.Second)),
		"of the future":  verify(keys, header, body, at.Add(-301*time.Second)),
		"another secret": verify([][]byte{make([]byte, 32)}, header, body, at),
		"no headers":     verify(keys, http.Header{}, body, at),
	} {
		if statusOf(err) != http.StatusUnauthorized {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRefusesSecretsWithoutTellingThem(t *testing.T) {
	for _, secret := range []string{"", "hush", "whsec_hush*hush", "whsec_aHVzaA=="} {
		_, err := decodeSecrets(secret)
		if err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: %v", secret, err)
		}
	}
}

func TestRemembersTriggersUntilTheirDeadlines(t *testing.T) {
	var seen seenTriggers
	now := time.Now()
	if err := seen.add("a", now.Add(time.Minute), now); err != nil {
		t.Fatal(err)
	}
	if err := seen.add("a", now.Add(time.Minute), now.Add(59*time.Second)); statusOf(err) != http.StatusConflict {
		t.Errorf("a copy: %v", err)
	}
	if err := seen.add("a", now.Add(time.Hour), now.Add(time.Minute)); err != nil {
		t.Errorf("after the deadline: %v", err)
	}
	for id := 0; len(seen.until) < maxSeen; id++ {
		seen.until[time.Duration(id).String()] = now.Add(time.Minute)
	}
	if err := seen.add("b", now.Add(time.Minute), now); statusOf(err) != http.StatusServiceUnavailable {
		t.Errorf("without room: %v", err)
	}
}
