package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// validator refuses a ConfigMap without data.change, as the function of the benchmark does.
type validator struct{}

func (validator) check(object *corev1.ConfigMap) (admission.Warnings, error) {
	if object.Data["change"] == "" {
		return nil, errors.New("data.change must not be empty")
	}
	return nil, nil
}

func (v validator) ValidateCreate(_ context.Context, object *corev1.ConfigMap) (admission.Warnings, error) {
	return v.check(object)
}

func (v validator) ValidateUpdate(_ context.Context, _, object *corev1.ConfigMap) (admission.Warnings, error) {
	return v.check(object)
}

func (validator) ValidateDelete(context.Context, *corev1.ConfigMap) (admission.Warnings, error) {
	return nil, nil
}

// serveWebhook serves a validating webhook at /validate with the certificate of a directory, and does nothing else.
func serveWebhook(directory string) {
	server := webhook.NewServer(webhook.Options{
		Host:    "127.0.0.1",
		Port:    number("BENCH_WEBHOOK_PORT"),
		CertDir: directory,
	})
	server.Register("/validate", admission.WithValidator[*corev1.ConfigMap](scheme.Scheme, validator{}))
	fmt.Println(`{"msg":"listening"}`)
	if err := server.Start(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
