{{/* Base of all object names, at most 50 characters so that suffixes fit. */}}
{{- define "pulsar-operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Names of roles carry the release namespace where they are not in it: two releases of one name, in two namespaces, may
watch the same third one.
*/}}
{{- define "pulsar-operator.watchName" -}}
{{- printf "%s-%s" .Release.Namespace (include "pulsar-operator.fullname" .) -}}
{{- end -}}

{{- define "pulsar-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: operator
{{- end -}}

{{/* Labels of everything but the selectors. The pods of the uninstall hook must not match the Deployment's selector. */}}
{{- define "pulsar-operator.commonLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: pulsar-operator
{{- end -}}

{{- define "pulsar-operator.labels" -}}
{{ include "pulsar-operator.selectorLabels" . }}
{{ include "pulsar-operator.commonLabels" . }}
{{- end -}}

{{- define "pulsar-operator.uninstallLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: uninstall
{{ include "pulsar-operator.commonLabels" . }}
{{- end -}}

{{- define "pulsar-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "pulsar-operator.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name must be set when serviceAccount.create is false: name the service account the operator runs as" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* What stands before the name of every image. */}}
{{- define "pulsar-operator.registry" -}}
{{- with .Values.imageRegistry }}{{ . }}/{{ end -}}
{{- end -}}

{{- define "pulsar-operator.image" -}}
{{- include "pulsar-operator.registry" . -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Watched namespaces as a comma-separated list, the release namespace first; "*" = all. */}}
{{- define "pulsar-operator.watchNamespaces" -}}
{{- if .Values.clusterScope -}}
{{- if .Values.watchNamespaces -}}
{{- fail "clusterScope true watches every namespace, so watchNamespaces must be empty: set clusterScope to false, or empty the list" -}}
{{- end -}}
*
{{- else -}}
{{- prepend .Values.watchNamespaces .Release.Namespace | uniq | join "," -}}
{{- end -}}
{{- end -}}

{{/* Environment of the operator and of the uninstall hook, read by pulsar_operator/settings.py. */}}
{{- define "pulsar-operator.env" -}}
- name: PULSAR_OPERATOR_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: PULSAR_OPERATOR_POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
# Its role in a Pulsar that authenticates its clients.
- name: PULSAR_OPERATOR_SERVICE_ACCOUNT
  valueFrom:
    fieldRef:
      fieldPath: spec.serviceAccountName
# Empty = all namespaces.
- name: PULSAR_OPERATOR_WATCH_NAMESPACES
  value: {{ include "pulsar-operator.watchNamespaces" . | trimAll "*" | quote }}
- name: PULSAR_OPERATOR_WORKERS
  value: {{ .Values.operator.workers | int64 | quote }}
- name: PULSAR_OPERATOR_RESYNC_SECONDS
  value: {{ .Values.operator.resyncSeconds | int64 | quote }}
- name: PULSAR_OPERATOR_LEASE_SECONDS
  value: {{ .Values.operator.leaseSeconds | int64 | quote }}
- name: PULSAR_OPERATOR_WATCH_SILENCE_SECONDS
  value: {{ .Values.operator.watchSilenceSeconds | int64 | quote }}
- name: PULSAR_OPERATOR_LOG_LEVEL
  value: {{ .Values.operator.logLevel | quote }}
- name: PULSAR_OPERATOR_LOG_FORMAT
  value: {{ .Values.operator.logFormat | quote }}
- name: PULSAR_OPERATOR_IMAGE_BROKER
  value: {{ print (include "pulsar-operator.registry" .) .Values.pulsarImages.broker | quote }}
- name: PULSAR_OPERATOR_IMAGE_BOOKIE
  value: {{ print (include "pulsar-operator.registry" .) .Values.pulsarImages.bookie | quote }}
- name: PULSAR_OPERATOR_IMAGE_PROXY
  value: {{ print (include "pulsar-operator.registry" .) .Values.pulsarImages.proxy | quote }}
- name: PULSAR_OPERATOR_UPGRADE_PATHS
  value: {{ .Values.upgradePaths | join ", " | quote }}
{{- range .Values.extraEnv }}
{{- if hasPrefix "PULSAR_OPERATOR_" .name }}
{{- fail (printf "extraEnv must not contain %s: settings of the operator have their own values, see operator, pulsarImages, upgradePaths and watchNamespaces" .name) }}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Pod Security Standard "restricted", for every pod of the chart. */}}
{{- define "pulsar-operator.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 10000
runAsGroup: 0
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "pulsar-operator.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* Where the pods of the chart run; shared by the operator and the uninstall hook. */}}
{{- define "pulsar-operator.scheduling" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Annotations of a post-delete hook; the argument is its weight. A failed Job stays, so that its log can be read. */}}
{{- define "pulsar-operator.uninstallHook" -}}
helm.sh/hook: post-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}
