{{/* Base name of everything of sizing: the operator looks for the Service at http://<instance>-sizing.<namespace>:8080. */}}
{{- define "pulsar.sizingName" -}}
{{- $name := printf "%s-sizing" (include "pulsar.instanceName" .) -}}
{{- if or (gt (len $name) 52) (not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name)) -}}
{{- fail (printf "%q cannot be the name of a Service and a CronJob, so sizing cannot be enabled: the PulsarInstance needs a name of at most 45 characters, lower-case letters, digits and -, a letter first" $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{/* Refuse values that contradict each other. */}}
{{- define "pulsar.sizingChecks" -}}
{{- $sizing := .Values.sizing -}}
{{- if and .Values.instance.namespace (ne .Values.instance.namespace .Release.Namespace) -}}
{{- fail (printf "sizing.enabled is for the namespace of the PulsarInstance, where the operator looks for the result: install this release in namespace %s, or set sizing.enabled to false" .Values.instance.namespace) -}}
{{- end -}}
{{- if lt (int64 $sizing.collector.retentionDays) (int64 $sizing.job.windowDays) -}}
{{- fail (printf "sizing.collector.retentionDays is %d, less than sizing.job.windowDays, %d: the job would never see its whole window; raise the first or lower the second" (int64 $sizing.collector.retentionDays) (int64 $sizing.job.windowDays)) -}}
{{- end -}}
{{- $s3 := or (hasPrefix "s3://" $sizing.storage.url) (hasPrefix "s3a://" $sizing.storage.url) -}}
{{- if and $sizing.storage.s3Endpoint (not $s3) -}}
{{- fail (printf "sizing.storage.s3Endpoint is set, but sizing.storage.url is %q: an endpoint belongs to a URL s3://bucket/folder" $sizing.storage.url) -}}
{{- end -}}
{{- if and $sizing.storage.url (hasPrefix "/" $sizing.job.eventLog) -}}
{{- fail (printf "sizing.job.eventLog is %q, but with sizing.storage.url there is no volume: name a folder of an object store, such as s3://bucket/events" $sizing.job.eventLog) -}}
{{- end -}}
{{- if and (eq $sizing.storage.s3Addressing "path") (not $sizing.storage.s3Endpoint) -}}
{{- fail "sizing.storage.s3Addressing is path without sizing.storage.s3Endpoint: AWS is addressed by host names unless an endpoint is named" -}}
{{- end -}}
{{- end -}}

{{- define "pulsar.sizingSelector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: sizing
{{- end -}}

{{/* Labels of the objects, and of the pods of the job, which must not match the selector of the collector. */}}
{{- define "pulsar.sizingLabels" -}}
{{ include "pulsar.labels" (index . 0) }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* The cluster's name in Pulsar, by which the operator asks for its result. */}}
{{- define "pulsar.sizingCluster" -}}
{{- default (include "pulsar.clusterName" .) .Values.cluster.spec.clusterName -}}
{{- end -}}

{{- define "pulsar.sizingImage" -}}
{{- $image := .Values.sizing.image -}}
{{- with .Values.imageRegistry }}{{ . }}/{{ end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default .Chart.Version $image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Where the traffic lies, for the collector and the job. */}}
{{- define "pulsar.sizingRoot" -}}
{{- default "/data" .Values.sizing.storage.url -}}
{{- end -}}

{{/*
Web address of the brokers from within Kubernetes. Not the proxies: the collector asks each broker by its id, a name of
the headless Service.
*/}}
{{- define "pulsar.sizingAdminUrl" -}}
{{- $spec := include "pulsar.clusterSpec" . | fromYaml -}}
{{- $component := ternary "standalone" "broker" (eq (default "Distributed" $spec.mode) "Standalone") -}}
{{- printf "http://%s-%s.%s.svc.%s:8080" (include "pulsar.clusterName" .) $component .Release.Namespace (default "cluster.local" $spec.clusterDomain) -}}
{{- end -}}

{{/* Domain of the names of single brokers, to which alone the collector's token is sent. */}}
{{- define "pulsar.sizingBrokerDomain" -}}
{{- $host := include "pulsar.sizingAdminUrl" . | trimPrefix "http://" | trimSuffix ":8080" -}}
{{- $service := splitList "." $host | first -}}
{{- printf ".%s-headless.%s" $service ($host | trimPrefix (printf "%s." $service)) -}}
{{- end -}}

{{/* Audience of the collector's token; empty = it has none. */}}
{{- define "pulsar.sizingTokenAudience" -}}
{{- if .Values.sizing.collector.tokenAudience -}}
{{- .Values.sizing.collector.tokenAudience -}}
{{- else if .Values.instance.spec.authentication -}}
{{- printf "pulsaroperator.io/%s/%s" .Release.Namespace (include "pulsar.instanceName" .) -}}
{{- end -}}
{{- end -}}

{{/* Whether Spark's executors are pods of their own. */}}
{{- define "pulsar.sizingOnKubernetes" -}}
{{- if hasPrefix "k8s://" .Values.sizing.job.master }}yes{{ end -}}
{{- end -}}

{{/* Pod Security Standard "restricted". The group owns the volume; without the policy every start walks over its files. */}}
{{- define "pulsar.sizingPodSecurity" -}}
runAsNonRoot: true
runAsUser: 10000
runAsGroup: 0
fsGroup: 10000
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "pulsar.sizingContainerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* How an object store is reached, as arguments of collector and job. */}}
{{- define "pulsar.sizingStore" -}}
{{- $storage := .Values.sizing.storage -}}
- {{ printf "--root=%s" (include "pulsar.sizingRoot" .) | quote }}
{{- with $storage.s3Endpoint }}
- {{ printf "--s3-endpoint=%s" . | quote }}
{{- end }}
{{- with $storage.s3Region }}
- {{ printf "--s3-region=%s" . | quote }}
{{- end }}
{{- if ne $storage.s3Addressing "auto" }}
- {{ printf "--s3-addressing=%s" $storage.s3Addressing | quote }}
{{- end }}
{{- end -}}

{{/* ServiceAccount of collector and executors, and of the job where it makes no pods. Their tokens stay away from them: a
workload identity has a volume or a server of its own. */}}
{{- define "pulsar.sizingAccount" -}}
{{- if .Values.sizing.serviceAccount.create -}}
serviceAccountName: {{ include "pulsar.sizingName" . }}
{{ end -}}
automountServiceAccountToken: false
{{- end -}}

{{/* A volume that only one node can mount keeps everything that reads it on the collector's node. */}}
{{- define "pulsar.sizingAffinity" -}}
{{- if and (not .Values.sizing.storage.url) (eq .Values.sizing.storage.accessMode "ReadWriteOnce") -}}
affinity:
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "pulsar.sizingSelector" . | nindent 12 }}
{{- end -}}
{{- end -}}

{{- define "pulsar.sizingMounts" -}}
- name: tmp
  mountPath: /tmp
{{- if not .Values.sizing.storage.url }}
- name: data
  mountPath: /data
{{- end }}
{{- end -}}

{{/* Arguments: list of the root context and the size limit of /tmp. */}}
{{- define "pulsar.sizingVolumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: {{ index . 1 }}
{{- if not (index . 0).Values.sizing.storage.url }}
- name: data
  persistentVolumeClaim:
    claimName: {{ include "pulsar.sizingName" (index . 0) }}
{{- end }}
{{- end -}}

{{- define "pulsar.sizingEnvFrom" -}}
{{- with .Values.sizing.storage.credentialsSecret -}}
envFrom:
  - secretRef:
      name: {{ . | quote }}
{{- end -}}
{{- end -}}

{{/*
Spark settings of the job: with executors in pods, what a pod of the chart needs for that. Spark makes, and at
the end deletes, no ConfigMap, Service or volume for them, so that the job's rights are pods alone; each of the executors
belongs to the job's pod and goes with it.
*/}}
{{- define "pulsar.sizingConf" -}}
{{- $conf := dict -}}
{{- if include "pulsar.sizingOnKubernetes" . -}}
{{- $_ := set $conf "spark.driver.host" "$(POD_IP)" -}}
{{- $_ := set $conf "spark.kubernetes.namespace" .Release.Namespace -}}
{{- $_ := set $conf "spark.kubernetes.driver.pod.name" "$(POD_NAME)" -}}
{{- $_ := set $conf "spark.kubernetes.driver.service.deleteOnTermination" "false" -}}
{{- $_ := set $conf "spark.kubernetes.driver.ownPersistentVolumeClaim" "false" -}}
{{- $_ := set $conf "spark.kubernetes.container.image" (include "pulsar.sizingImage" .) -}}
{{- $_ := set $conf "spark.kubernetes.container.image.pullPolicy" .Values.sizing.image.pullPolicy -}}
{{- $_ := set $conf "spark.kubernetes.executor.disableConfigMap" "true" -}}
{{- $_ := set $conf "spark.kubernetes.executor.podTemplateFile" "/etc/pulsar-sizing/executor.yaml" -}}
{{- $executors := .Values.sizing.job.executors -}}
{{- $_ := set $conf "spark.executor.instances" (toString (int64 $executors.instances)) -}}
{{- $_ := set $conf "spark.executor.cores" (toString (int64 $executors.cores)) -}}
{{- $_ := set $conf "spark.executor.memory" $executors.memory -}}
{{- $_ := set $conf "spark.executor.memoryOverhead" $executors.memoryOverhead -}}
{{- end -}}
{{- range $key, $value := .Values.sizing.job.conf -}}
{{- $_ := set $conf $key (toString $value) -}}
{{- end -}}
{{- toYaml $conf -}}
{{- end -}}
