// Package levelhook is what a function needs in Go, with the standard library alone: copy this folder into your module.
// It was written from infra/contract, which says what a description may have.
package levelhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const account = "/var/run/secrets/kubernetes.io/serviceaccount"

// Serve answers the gateway on HOST and PORT until the process is told to end. The README says which environment
// variables it reads.
func Serve(f Function) error {
	keys, err := decodeSecrets(os.Getenv("LEVELHOOK_SIGNING_SECRETS"))
	if err != nil {
		return fmt.Errorf("LEVELHOOK_SIGNING_SECRETS: %w", err)
	}
	apiserver, err := connect()
	if err != nil {
		return err
	}
	cacheClient, err := client("GATEWAY_CA_FILE", os.Getenv("GATEWAY_CA_FILE"))
	if err != nil {
		return err
	}
	handler := &server{
		Function:    f,
		keys:        keys,
		cacheClient: cacheClient,
		cluster:     apiserver,
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(env("HOST", "127.0.0.1"), env("PORT", "8080")))
	if err != nil {
		return err
	}
	httpServer := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		// Longer than the gateway keeps an idle connection, so the gateway closes it.
		IdleTimeout: 75 * time.Second,
	}
	line, _ := json.Marshal(map[string]string{"msg": "listening", "url": "http://" + listener.Addr().String()})
	fmt.Println(string(line))
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	stopped := make(chan error, 1)
	go func() {
		<-stop.Done()
		// Runs that are under way end by themselves, at their deadlines at the latest.
		stopped <- httpServer.Shutdown(context.Background())
	}()
	if err := httpServer.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// Connect reads and writes the apiserver itself, by the environment variables of Serve: for tests and tools.
func Connect() (*Cache, *API, error) {
	apiserver, err := connect()
	if err != nil {
		return nil, nil, err
	}
	token, err := os.ReadFile(apiserver.tokenFile)
	if err != nil {
		return nil, nil, err
	}
	return &Cache{apiserver.client, apiserver.server, strings.TrimSpace(string(token))}, &API{cluster: apiserver}, nil
}

func connect() (*cluster, error) {
	apiClient, err := client("KUBE_CA_FILE", env("KUBE_CA_FILE", account+"/ca.crt"))
	if err != nil {
		return nil, err
	}
	inCluster := "https://" + net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	return &cluster{apiClient, env("KUBE_SERVER", inCluster), env("KUBE_TOKEN_FILE", account+"/token")}, nil
}

// client trusts the certificate authorities of a file, or those of the system if there is none. It follows no redirect,
// which would take a token elsewhere.
func client(variable, caFile string) (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", variable, err)
		}
		authorities := x509.NewCertPool()
		if !authorities.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %s holds no certificate in PEM form", variable, caFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: authorities}
	}
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: transport, CheckRedirect: refuse}, nil
}

func env(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}
