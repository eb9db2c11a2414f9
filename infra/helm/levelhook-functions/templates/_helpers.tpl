{{- define "functions.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
app.kubernetes.io/part-of: levelhook
{{- end }}

{{/* Takes (list ROOT NAME). */}}
{{- define "functions.selector" -}}
app.kubernetes.io/name: {{ index . 1 | quote }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
app.kubernetes.io/component: function
{{- end }}

{{/* No webhook of the function reviews what carries it (src/cli/exclusions.ts). Not in selectors, which cannot change. */}}
{{- define "functions.own" -}}
levelhook.dev/function: {{ index . 1 | quote }}
{{- end }}

{{/* Labels of an object of a function. Takes (list ROOT NAME). */}}
{{- define "functions.metadata" -}}
name: {{ index . 1 | quote }}
namespace: {{ (index . 0).Release.Namespace | quote }}
labels:
  {{- include "functions.labels" (index . 0) | nindent 2 }}
  {{- include "functions.selector" . | nindent 2 }}
  {{- include "functions.own" . | nindent 2 }}
{{- end }}

{{- define "functions.secretName" -}}
{{- $function := index (index . 0).Values.functions (index . 1) -}}
{{- $function.signingSecret | default (printf "%s-signing" (index . 1)) -}}
{{- end }}

{{/* The container of a function. Takes (list ROOT NAME). */}}
{{- define "functions.container" -}}
{{- $root := index . 0 -}}
{{- $function := index $root.Values.functions (index . 1) -}}
name: function
image: {{ $function.image | quote }}
imagePullPolicy: {{ $root.Values.image.pullPolicy | quote }}
{{- with $function.command }}
command:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $function.args }}
args:
  {{- toYaml . | nindent 2 }}
{{- end }}
env:
  - { name: HOST, value: 0.0.0.0 }
  {{- if ne ($function.runtime | default "deployment") "knative" }}
  # Knative sets it itself.
  - { name: PORT, value: {{ dig "port" 8080 $function | int64 | quote }} }
  {{- end }}
  {{- with $root.Values.gateway.redisUrl }}
  - { name: REDIS_URL, value: {{ . | quote }} }
  {{- end }}
  - name: LEVELHOOK_SIGNING_SECRETS
    valueFrom:
      secretKeyRef: { name: {{ include "functions.secretName" . | quote }}, key: secrets }
  {{- with $function.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $function.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
resources:
  {{- toYaml ($function.resources | default (dict "requests" (dict "cpu" "50m" "memory" "96Mi") "limits" (dict "memory" "256Mi"))) | nindent 2 }}
ports:
  - { name: http1, containerPort: {{ dig "port" 8080 $function | int64 }} }
# A function answers signed requests only, so that a port that is open must do.
readinessProbe:
  tcpSocket: { port: {{ dig "port" 8080 $function | int64 }} }
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities: { drop: [ALL] }
  seccompProfile: { type: RuntimeDefault }
volumeMounts:
  # Node keeps compiled modules here.
  - { name: tmp, mountPath: /tmp }
{{- end }}
