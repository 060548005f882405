{{/* The name of all objects. */}}
{{- define "mirror-connect.name" -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- end -}}

{{/* What chooses the pods; it never changes. */}}
{{- define "mirror-connect.selector" -}}
app.kubernetes.io/name: mirror-connect
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "mirror-connect.labels" -}}
{{ include "mirror-connect.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
{{- end -}}

{{/* The worker's properties: the chart's own, then the user's over them. */}}
{{- define "mirror-connect.properties" -}}
{{- $own := dict
  "bootstrap.servers" (required "bootstrapServers is missing: the brokers host:port" .Values.bootstrapServers)
  "group.id" .Values.groupId
  "config.storage.topic" (printf "%s-configs" .Values.groupId)
  "offset.storage.topic" (printf "%s-offsets" .Values.groupId)
  "status.storage.topic" (printf "%s-status" .Values.groupId)
  "config.storage.replication.factor" "-1"
  "offset.storage.replication.factor" "-1"
  "status.storage.replication.factor" "-1"
  "key.converter" "org.apache.kafka.connect.converters.ByteArrayConverter"
  "value.converter" "org.apache.kafka.connect.converters.ByteArrayConverter"
  "listeners" "http://:8083"
  "rest.advertised.host.name" "${env:POD_IP}"
  "rest.advertised.port" "8083"
  "config.providers" "env,dir,secrets"
  "config.providers.env.class" "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
  "config.providers.env.param.allowlist.pattern" "POD_IP"
  "config.providers.dir.class" "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
  "config.providers.dir.param.allowed.paths" "/etc/mirror-connect"
  "config.providers.secrets.class" "io.strimzi.kafka.KubernetesSecretConfigProvider"
-}}
{{- if .Values.metrics.enabled }}{{ $_ := set $own "metrics.port" "9404" }}{{ end }}
{{- range $name, $value := mergeOverwrite $own .Values.properties }}
{{ $name }}=
{{- /* Helm reads numbers as fractions, and would write a million as 1e+06. */ -}}
{{- if and (kindIs "float64" $value) (eq (floor $value) $value) }}{{ int64 $value }}
{{- else }}{{ $value | toString | replace "\n" "\\n" }}{{ end }}
{{- end }}
{{- end -}}
