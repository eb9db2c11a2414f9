// The operator of the line's benchmark that is written with controller-runtime: it repeats each ConfigMap's
// data.change in an annotation, and writes the lines of test/bench/line/report.ts to its standard output.
//
//	bench-controller-runtime KUBECONFIG
//
// With BENCH_WEBHOOK_CERTIFICATE=DIRECTORY it serves a webhook instead, see webhook.go.
// With BENCH_LEASE=namespace/name it is elected by this Lease before it reconciles.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const stamp = "bench.levelhook.dev/change"

// machineMs is the clock that all processes of the machine share: milliseconds of CLOCK_MONOTONIC.
func machineMs() float64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return float64(now.Nano()/1000) / 1000
}

// report counts keys and writes a line when the first and the last of them was reconciled or stamped.
type report struct {
	mutex   sync.Mutex
	objects int
	seen    map[string]bool
	stamped map[string]bool
}

func (r *report) say(line map[string]any) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

func (r *report) run(object *corev1.ConfigMap, startedAtMs float64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if object.Data["count"] != "" {
		r.say(map[string]any{
			"msg":                "run",
			"key":                object.Namespace + "/" + object.Name,
			"resourceVersion":    object.ResourceVersion,
			"startedAtMachineMs": startedAtMs,
		})
	}
	r.note(r.seen, object.Name, "seen")
}

func (r *report) wrote(name string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.note(r.stamped, name, "stamped")
}

func (r *report) note(names map[string]bool, name, what string) {
	if names[name] {
		return
	}
	names[name] = true
	if len(names) == 1 {
		r.say(map[string]any{"msg": what + " first", "atMs": machineMs()})
	}
	if len(names) == r.objects {
		r.say(map[string]any{"msg": what + " all", "atMs": machineMs()})
	}
}

type reconciler struct {
	client    client.Client
	namespace string
	report    *report
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	startedAtMs := machineMs()
	if request.Namespace != r.namespace {
		return ctrl.Result{}, nil
	}
	var object corev1.ConfigMap
	if err := r.client.Get(ctx, request.NamespacedName, &object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.report.run(&object, startedAtMs)
	change := object.Data["change"]
	if change == "" || object.Annotations[stamp] == change {
		return ctrl.Result{}, nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, stamp, change)
	if err := r.client.Patch(ctx, &object, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return ctrl.Result{}, err
	}
	r.report.wrote(request.Name)
	return ctrl.Result{}, nil
}

func number(name string) int {
	value, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	log.SetLogger(zap.New())
	if directory := os.Getenv("BENCH_WEBHOOK_CERTIFICATE"); directory != "" {
		serveWebhook(directory)
		return
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		panic(err)
	}
	// No limit: client-go's default of 20 writes a second would decide the result.
	config.QPS = -1
	options := ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}}
	if namespace, name, elects := strings.Cut(os.Getenv("BENCH_LEASE"), "/"); elects {
		options.LeaderElection = true
		options.LeaderElectionNamespace = namespace
		options.LeaderElectionID = name
		options.LeaderElectionReleaseOnCancel = true
	}
	manager, err := ctrl.NewManager(config, options)
	if err != nil {
		panic(err)
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: number("BENCH_CONCURRENCY")}).
		Complete(&reconciler{
			client:    manager.GetClient(),
			namespace: os.Getenv("BENCH_NAMESPACE"),
			report:    &report{objects: number("BENCH_OBJECTS"), seen: map[string]bool{}, stamped: map[string]bool{}},
		})
	if err != nil {
		panic(err)
	}
	fmt.Println(`{"msg":"listening"}`)
	if err := manager.Start(ctrl.SetupSignalHandler()); err != nil {
		panic(err)
	}
}
