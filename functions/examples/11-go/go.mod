module levelhook.dev/examples/pod-count

go 1.24
