{{- define "forgequeue.name" -}}
{{ .Values.fullnameOverride | default .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- /* Labels that select pods; called with a list of the root and the component. */}}
{{- define "forgequeue.selector" -}}
app.kubernetes.io/name: {{ index . 1 }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
{{- end }}

{{- define "forgequeue.podLabels" -}}
{{ include "forgequeue.selector" . }}
app.kubernetes.io/part-of: forgequeue
{{- end }}

{{- define "forgequeue.labels" -}}
{{- $root := index . 0 -}}
{{ include "forgequeue.podLabels" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "forgequeue.metadata" -}}
name: {{ include "forgequeue.name" (index . 0) }}-{{ index . 1 }}
namespace: {{ (index . 0).Release.Namespace }}
labels:
  {{- include "forgequeue.labels" . | nindent 2 }}
{{- end }}

{{- define "forgequeue.image" -}}
{{- $root := index . 0 -}}
{{ $root.Values.image.registry }}/{{ index . 1 }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}
{{- end }}

{{- define "forgequeue.secret" -}}
{{- $root := index . 0 -}}
{{ get $root.Values.secrets (index . 1) | default (printf "%s-%s" (include "forgequeue.name" $root) (index . 1)) }}
{{- end }}

{{- /* Of every pod: nothing of the node, the cluster or root. */}}
{{- define "forgequeue.pod" -}}
automountServiceAccountToken: false
# The variables of services would be many, and could have a setting's name.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: { type: RuntimeDefault }
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "forgequeue.container" -}}
{{- with (index . 0).Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end }}

{{- /* Called with how often a start is probed. */}}
{{- define "forgequeue.probes" -}}
startupProbe: # a database that is being migrated refuses core: it ends, and is started again
  httpGet: { path: /livez, port: http }
  periodSeconds: 2
  failureThreshold: {{ . }}
readinessProbe:
  httpGet: { path: /readyz, port: http }
  periodSeconds: 3
  timeoutSeconds: 4
livenessProbe: # of the process alone: without its database or core it stays
  httpGet: { path: /livez, port: http }
  periodSeconds: 10
  timeoutSeconds: 4
  failureThreshold: 6
{{- end }}

{{- /* Where pods run, and their annotations; called with a list of the root and the component. */}}
{{- define "forgequeue.placement" -}}
{{- $values := get (index . 0).Values (index . 1) -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "forgequeue.selector" . | nindent 8 }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "forgequeue.env" -}}
{{- range $name, $value := . }}
- { name: {{ $name }}, value: {{ $value | toString | quote }} }
{{- end }}
{{- end }}

{{- define "forgequeue.disruption" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "forgequeue.metadata" . | nindent 2 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "forgequeue.selector" . | nindent 6 }}
{{- end }}

{{- /* The URL of core, or of each cell of it. */}}
{{- define "forgequeue.core" -}}
{{- $url := printf "http://%s-core:8081" (include "forgequeue.name" .) -}}
{{- $cells := list -}}
{{- range .Values.cells.names }}{{ $cells = append $cells (printf "%s=%s/cells/%s" . $url .) }}{{ end -}}
{{ empty $cells | ternary $url (join "," $cells) }}
{{- end }}
