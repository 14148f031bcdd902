{{- define "pulsar.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "pulsar.annotations" -}}
{{- if .Values.keepOnUninstall }}
annotations:
  helm.sh/resource-policy: keep
{{- end }}
{{- end -}}

{{/*
Annotations of an object others refer to. helm uninstall deletes by kind and waits for nothing, so it deletes parents
before their children. The annotation makes the deletion guard of the chart pulsar-operator accept that. It confirms nothing
to the operator, which keeps the cluster running until nothing needs it, also for objects that this release did not make.
Arguments: list of the root context and the object's name.
*/}}
{{- define "pulsar.parentAnnotations" -}}
{{- if (index . 0).Values.keepOnUninstall -}}
{{- include "pulsar.annotations" (index . 0) -}}
{{- else }}
annotations:
  pulsaroperator.io/delete-after-dependents: {{ index . 1 | quote }}
{{- end }}
{{- end -}}

{{- define "pulsar.instanceName" -}}
{{- if not (or .Values.instance.create .Values.instance.name) -}}
{{- fail "instance.name must be set when instance.create is false: name the PulsarInstance this cluster belongs to" -}}
{{- end -}}
{{- if and .Values.instance.create .Values.instance.namespace -}}
{{- fail "instance.namespace is only for an instance that exists already (instance.create false): this chart makes it in the release namespace" -}}
{{- end -}}
{{- default .Release.Name .Values.instance.name -}}
{{- end -}}

{{- define "pulsar.instanceRef" -}}
name: {{ include "pulsar.instanceName" . | quote }}
{{- with .Values.instance.namespace }}
namespace: {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "pulsar.clusterName" -}}
{{- if not (or .Values.cluster.create .Values.cluster.name) -}}
{{- fail "cluster.name must be set when cluster.create is false: name the PulsarCluster this release goes with" -}}
{{- end -}}
{{- $name := default .Release.Name .Values.cluster.name -}}
{{- if or (gt (len $name) 40) (not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name)) -}}
{{- fail (printf "%q cannot be the name of a PulsarCluster (at most 40 characters: lower-case letters, digits and -, a letter first): set cluster.name" $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{/*
Lay one object over another, in place: objects are merged, everything else is replaced, also by 0, false and empty
lists, which sprig's mergeOverwrite would not do. Arguments: list of base and overlay.
*/}}
{{- define "pulsar.overlay" -}}
{{- $base := index . 0 -}}
{{- range $key, $value := index . 1 -}}
{{- if kindIs "invalid" $value -}}
{{- $_ := unset $base $key -}}
{{- else if and (kindIs "map" $value) (kindIs "map" (get $base $key)) -}}
{{- include "pulsar.overlay" (list (get $base $key) $value) -}}
{{- else -}}
{{- $_ := set $base $key $value -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What the profile says of a cluster. */}}
{{- define "pulsar.profile" -}}
{{- if eq (default "Distributed" .Values.cluster.spec.mode) "Standalone" -}}
preset: {{ .Values.profile }}
standalone: {}
{{- else if eq .Values.profile "Production" -}}
preset: Production
metadataStore:
  managed:
    replicas: 3
    storage: {size: 10Gi}
bookkeeper:
  replicas: 3
  journal: {size: 10Gi}
  ledgers: {size: 50Gi}
  autoRecovery: {replicas: 1}
broker:
  replicas: 3
proxy:
  replicas: 2
{{- else -}}
preset: Small
metadataStore:
  managed:
    replicas: 1
    storage: {size: 1Gi}
bookkeeper:
  replicas: 1
  journal: {size: 1Gi}
  ledgers: {size: 5Gi}
  autoRecovery: {replicas: 1}
broker:
  replicas: 1
proxy:
  replicas: 1
{{- end -}}
{{- end -}}

{{/*
PulsarCluster.spec: the profile, laid over by the values. No version unless the values name one: the API server then
fills in the version of the day the cluster is made, and an upgrade of this chart never upgrades Pulsar by itself.
*/}}
{{- define "pulsar.clusterSpec" -}}
{{- $spec := include "pulsar.profile" . | fromYaml -}}
{{- if (.Values.cluster.spec.metadataStore).external -}}
{{- $_ := unset $spec "metadataStore" -}}
{{- end -}}
{{- include "pulsar.overlay" (list $spec .Values.cluster.spec) -}}
{{- $_ := set $spec "instanceRef" (include "pulsar.instanceRef" . | fromYaml) -}}
{{- toYaml $spec -}}
{{- end -}}

{{/* PulsarInstance.spec: the cluster's metadata store is also the configuration store, unless the values name one. */}}
{{- define "pulsar.instanceSpec" -}}
{{- $spec := dict "configurationStore" (dict "cluster" (dict "name" (include "pulsar.clusterName" .))) -}}
{{- if .Values.instance.spec.configurationStore -}}
{{- $_ := unset $spec "configurationStore" -}}
{{- end -}}
{{- include "pulsar.overlay" (list $spec .Values.instance.spec) -}}
{{- toYaml $spec -}}
{{- end -}}

{{/* Refuse two entries of a list with one name. Arguments: list of the list's name and the list. */}}
{{- define "pulsar.unique" -}}
{{- $seen := dict -}}
{{- $key := index . 0 -}}
{{- range index . 1 -}}
{{- if hasKey $seen .name -}}
{{- fail (printf "%s has two entries named %q: name is metadata.name in Kubernetes; the name inside Pulsar can be set with spec.name" $key .name) -}}
{{- end -}}
{{- $_ := set $seen .name true -}}
{{- end -}}
{{- end -}}

{{/* Whether the proxies accept TLS alone; empty = no. Argument: PulsarCluster.spec. */}}
{{- define "pulsar.tlsOnly" -}}
{{- if eq (dig "tls" "edge" "mode" "Plain" .) "Required" -}}
true
{{- end -}}
{{- end -}}

{{/* The component that clients without TLS come in by: brokers accept them inside of Kubernetes. Argument: PulsarCluster.spec. */}}
{{- define "pulsar.front" -}}
{{- if eq (default "Distributed" .mode) "Standalone" -}}
standalone
{{- else if and (gt (int (default dict .proxy).replicas) 0) (not (include "pulsar.tlsOnly" .)) -}}
proxy
{{- else -}}
broker
{{- end -}}
{{- end -}}

{{- define "pulsar.conformanceImage" -}}
{{- $image := .Values.conformance.image -}}
{{- with .Values.imageRegistry }}{{ . }}/{{ end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default .Chart.Version $image.tag) -}}
{{- end -}}
{{- end -}}
