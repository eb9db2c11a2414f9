{{/*
The name of the Service, too, so it begins with a letter (before Kubernetes 1.36) and has no dot, as that of a release
may.
*/}}
{{- define "levelhook.name" -}}
{{- $release := .Release.Name | replace "." "-" -}}
{{- $name := ternary $release (printf "levelhook-%s" $release) (regexMatch "^[a-z]" $release) -}}
{{- .Values.fullnameOverride | default $name | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{/* The first part of the names of objects that are not in the release's own namespace. */}}
{{- define "levelhook.clusterName" -}}
{{ .Release.Namespace }}:{{ include "levelhook.name" . }}
{{- end }}

{{- define "levelhook.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: levelhook
{{- end }}

{{- define "levelhook.selector" -}}
app.kubernetes.io/name: levelhook
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: gateway
{{- end }}

{{- define "levelhook.redisSelector" -}}
app.kubernetes.io/name: levelhook
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: redis
{{- end }}

{{- define "levelhook.secretName" -}}
{{- .Values.secrets.existingSecret | default (printf "%s-secrets" (include "levelhook.name" .)) -}}
{{- end }}

{{- define "levelhook.scheme" -}}
{{ if .Values.tls.secretName }}https{{ else }}http{{ end }}
{{- end }}

{{/* Not empty when the gateway takes reviews. */}}
{{- define "levelhook.hasWebhooks" -}}
{{- if or .Values.webhooks.secretName .Values.webhooks.generate }}true{{ end -}}
{{- end }}

{{/* The Lease in kube-system that names the Redis process: leaseName of src/gateway/recovery/dispatch-lease.ts. */}}
{{- define "levelhook.dispatchLease" -}}
{{- $environment := include "levelhook.environment" . | fromYaml -}}
{{- $prefix := get $environment "LEVELHOOK_KEY_PREFIX" | default "levelhook" -}}
{{- $cluster := get $environment "LEVELHOOK_CLUSTER_ID" | default "" -}}
{{- if and (eq $prefix "levelhook") (eq $cluster "") -}}
levelhook-dispatch
{{- else -}}
levelhook-dispatch-{{ list $prefix $cluster | toJson | sha256sum | trunc 16 }}
{{- end -}}
{{- end }}

{{/* The gateway's variables. A setting of the values wins over a default of the chart. */}}
{{- define "levelhook.environment" -}}
{{- $name := include "levelhook.name" . -}}
{{- $redis := .Values.redis -}}
{{- $environment := dict
  "LEVELHOOK_HOST" "0.0.0.0"
  "LEVELHOOK_LEASE" (printf "%s/%s" .Release.Namespace $name)
  "LEVELHOOK_DRAIN_SECONDS" "20"
  "LEVELHOOK_REDIS_USERS" (ternary "" (join "," (prepend .Values.networkPolicy.redisNamespaces .Release.Namespace | uniq)) (ne $redis.url ""))
-}}
{{- if .Values.tls.secretName -}}
{{- $_ := set $environment "LEVELHOOK_CACHE_URL" (printf "https://%s.%s.svc:8787/cache" $name .Release.Namespace) -}}
{{- end -}}
{{- range $variable, $value := .Values.settings -}}
{{- /* Helm reads 1000000 as 1e+06. */ -}}
{{- $isWhole := and (kindIs "float64" $value) (eq (toString (floor $value)) (toString $value)) -}}
{{- $_ := set $environment $variable (ternary (printf "%d" (int64 $value)) (toString $value) $isWhole) -}}
{{- end -}}
{{- $_ := set $environment "LEVELHOOK_PORT" "8787" -}}
{{- $_ := set $environment "REDIS_URL" ($redis.url | default (printf "redis://%s-redis.%s.svc:6379" $name .Release.Namespace)) -}}
{{- $_ := set $environment "LEVELHOOK_ADMIN_TOKENS_FILE" "/etc/levelhook/secrets/admin-tokens" -}}
{{- $_ := set $environment "LEVELHOOK_CACHE_KEYS_FILE" "/etc/levelhook/secrets/cache-keys" -}}
{{- if not $redis.url -}}
{{- $_ := set $environment "LEVELHOOK_REDIS_PASSWORD_FILE" "/etc/levelhook/secrets/redis-password" -}}
{{- else -}}
{{- if $redis.auth.secretName -}}
{{- $_ := set $environment "LEVELHOOK_REDIS_PASSWORD_FILE" "/etc/levelhook/redis-auth/password" -}}
{{- if $redis.auth.hasUsername -}}
{{- $_ := set $environment "LEVELHOOK_REDIS_USERNAME_FILE" "/etc/levelhook/redis-auth/username" -}}
{{- end -}}
{{- end -}}
{{- if $redis.sentinelAuth.secretName -}}
{{- $_ := set $environment "LEVELHOOK_REDIS_SENTINEL_PASSWORD_FILE" "/etc/levelhook/sentinel-auth/password" -}}
{{- if $redis.sentinelAuth.hasUsername -}}
{{- $_ := set $environment "LEVELHOOK_REDIS_SENTINEL_USERNAME_FILE" "/etc/levelhook/sentinel-auth/username" -}}
{{- end -}}
{{- end -}}
{{- if $redis.tls.caSecretName -}}
{{- $_ := set $environment "LEVELHOOK_REDIS_CA_FILE" "/etc/levelhook/redis-ca/ca.crt" -}}
{{- end -}}
{{- if $redis.tls.clientSecretName -}}
{{- $_ := set $environment "LEVELHOOK_REDIS_CERT_FILE" "/etc/levelhook/redis-client/tls.crt" -}}
{{- $_ := set $environment "LEVELHOOK_REDIS_KEY_FILE" "/etc/levelhook/redis-client/tls.key" -}}
{{- end -}}
{{- end -}}
{{- if .Values.tls.secretName -}}
{{- $_ := set $environment "LEVELHOOK_TLS_CERT_FILE" "/etc/levelhook/tls/tls.crt" -}}
{{- $_ := set $environment "LEVELHOOK_TLS_KEY_FILE" "/etc/levelhook/tls/tls.key" -}}
{{- end -}}
{{- if include "levelhook.hasWebhooks" . -}}
{{- $_ := set $environment "LEVELHOOK_WEBHOOK_LISTEN" "0.0.0.0:9443" -}}
{{- end -}}
{{- if .Values.webhooks.generate -}}
{{- if .Values.webhooks.secretName -}}
{{- fail "webhooks: secretName has a certificate, and generate makes one: set one of them" -}}
{{- end -}}
{{- $_ := set $environment "LEVELHOOK_WEBHOOK_SERVICE" (printf "%s/%s" .Release.Namespace $name) -}}
{{- $_ := set $environment "LEVELHOOK_WEBHOOK_SECRET" (printf "%s/%s-webhooks" .Release.Namespace $name) -}}
{{- end -}}
{{- if .Values.webhooks.secretName -}}
{{- $_ := set $environment "LEVELHOOK_WEBHOOK_TLS_CERT_FILE" "/etc/levelhook/webhooks/tls.crt" -}}
{{- $_ := set $environment "LEVELHOOK_WEBHOOK_TLS_KEY_FILE" "/etc/levelhook/webhooks/tls.key" -}}
{{- end -}}
{{- if .Values.webhooks.clientCa.configMapName -}}
{{- $_ := set $environment "LEVELHOOK_WEBHOOK_CLIENT_CA_FILE" "/etc/levelhook/webhook-client-ca/ca.crt" -}}
{{- end -}}
{{- if .Values.functionCa.configMapName -}}
{{- $_ := set $environment "LEVELHOOK_FUNCTION_CA_FILE" "/etc/levelhook/function-ca/ca.crt" -}}
{{- end -}}
{{- if .Values.cache -}}
{{- $_ := set $environment "LEVELHOOK_CACHE_FILE" "/etc/levelhook/cache/cache.yaml" -}}
{{- end -}}
{{- toYaml $environment -}}
{{- end }}

{{/* Folders below /etc/levelhook, each with the source of its files. */}}
{{- define "levelhook.files" -}}
{{- $files := dict "secrets" (dict "secret" (dict "secretName" (include "levelhook.secretName" .) "defaultMode" 288)) -}}
{{- $redis := .Values.redis -}}
{{- $secrets := dict "redis-auth" $redis.auth.secretName "sentinel-auth" $redis.sentinelAuth.secretName
  "redis-ca" $redis.tls.caSecretName "redis-client" $redis.tls.clientSecretName "tls" .Values.tls.secretName
  "webhooks" .Values.webhooks.secretName -}}
{{- range $folder, $secret := $secrets -}}
{{- if $secret -}}
{{- $_ := set $files $folder (dict "secret" (dict "secretName" $secret "defaultMode" 288)) -}}
{{- end -}}
{{- end -}}
{{- if .Values.webhooks.clientCa.configMapName -}}
{{- $_ := set $files "webhook-client-ca" (dict "configMap" (dict "name" .Values.webhooks.clientCa.configMapName)) -}}
{{- end -}}
{{- if .Values.functionCa.configMapName -}}
{{- $_ := set $files "function-ca" (dict "configMap" (dict "name" .Values.functionCa.configMapName)) -}}
{{- end -}}
{{- if .Values.cache -}}
{{- $_ := set $files "cache" (dict "configMap" (dict "name" (printf "%s-cache" (include "levelhook.name" .)))) -}}
{{- end -}}
{{- toYaml $files -}}
{{- end }}
