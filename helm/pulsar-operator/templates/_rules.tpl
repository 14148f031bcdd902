{{/*
Rights of the operator in each watched namespace. One rule per purpose; the README's table repeats them.
Nothing is granted by wildcard. Not granted on purpose: pods/exec, pods/log, listing or watching Secrets, writing or
listing namespaces, anything on nodes, persistentvolumes, CustomResourceDefinitions or RBAC objects. Reading the API groups at start
(discovery) is what Kubernetes grants to every authenticated user.
*/}}
{{- define "pulsar-operator.rules" -}}
# The custom resources: watched, read, and patched (server-side apply) only to put the finalizer on and take it off.
# No create and no delete: these objects belong to their users. (One exception below.)
- apiGroups: [pulsaroperator.io]
  resources:
    - pulsarinstances
    - pulsarclusters
    - pulsartenants
    - pulsarnamespaces
    - pulsartopics
    - pulsarresourcegroups
    - pulsarisolationpolicies
    - pulsarrebalances
    - pulsartopicsets
  verbs: [get, list, watch, patch]
# The PulsarRebalance <cluster>-balancer, kept while spec.loadBalancing.driver of a PulsarCluster is Operator.
- apiGroups: [pulsaroperator.io]
  resources: [pulsarrebalances]
  verbs: [create, delete]
# Their status: conditions and what was observed, by server-side apply.
- apiGroups: [pulsaroperator.io]
  resources:
    - pulsarinstances/status
    - pulsarclusters/status
    - pulsartenants/status
    - pulsarnamespaces/status
    - pulsartopics/status
    - pulsarresourcegroups/status
    - pulsarisolationpolicies/status
    - pulsarrebalances/status
    - pulsartopicsets/status
  verbs: [patch]
# Needed to name these as owners of child objects where the admission plug-in OwnerReferencesPermissionEnforcement
# is on (OpenShift has it on).
- apiGroups: [pulsaroperator.io]
  resources:
    - pulsarinstances/finalizers
    - pulsarclusters/finalizers
    - pulsarrebalances/finalizers
  verbs: [update]
# ZooKeeper, bookies, auto-recovery, brokers, proxies: applied, watched for readiness, deleted with their cluster.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch, delete]
# Pods are made by StatefulSets. The operator watches their readiness and deletes one that serves nobody to roll it
# (updateStrategy OnDelete). Patched is one annotation of a bookie's: its rack. It never runs a command in a pod.
# Create is for dry runs alone: before a pod is evicted, the API server says whether it would create its successor.
# It gives no power that the right on statefulsets does not give: a StatefulSet makes any pod of a namespace.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]
# A pod that serves is replaced by eviction: its budget counts it, so that a roll and a node drain never take two.
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
# Rendered configuration; records: BookKeeper's INSTANCEID, ensembles that were founded, settings of Pulsar's balancer.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, patch, delete]
# Addresses of the components and identities of their pods (which have no rights). Repaired at the next look, not watched.
- apiGroups: [""]
  resources: [services, serviceaccounts]
  verbs: [get, list, create, patch, delete]
# One budget per component, so that a node drain takes one pod at a time. Not watched either.
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, create, patch, delete]
# The generated superuser digest of ZooKeeper, read by its name, created once, never changed, and deleted only together
# with the volumes (reclaimPolicy Delete). Where spec.tls.edge of a PulsarCluster names a Secret with a certificate, that
# Secret is read by its name, and the copy <cluster>-edge-tls is created, patched and deleted. Patch gives no power over a
# Secret that delete and create do not give together. No list and no watch: what is not named is not seen.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch, delete]
# Volume claims are made by StatefulSets. Read to know whether there is data; those of a removed bookie are marked as empty,
# and deleted before its ordinal returns; others only with reclaimPolicy Delete.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, patch, delete]
# Whether the namespace is being deleted, when a request is refused during a deletion.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get]
# Events on the custom resources: what was done, and why. Repeats are patched into the first one. Listed are those of a
# StatefulSet that lacks a pod: why Kubernetes does not create it.
- apiGroups: [""]
  resources: [events]
  verbs: [list, create, patch]
{{- end -}}

{{/* Rights on the Lease that keeps a second operator from acting; in the release namespace only. */}}
{{- define "pulsar-operator.leaseRules" -}}
# RBAC cannot limit create by name: the name is not known when it is checked.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [pulsar-operator]
  verbs: [get, update]
{{- end -}}

{{/* Tokens of the operator's own ServiceAccount alone, for a Pulsar that authenticates its clients. */}}
{{- define "pulsar-operator.tokenRules" -}}
- apiGroups: [""]
  resources: [serviceaccounts/token]
  resourceNames: [{{ include "pulsar-operator.serviceAccountName" . | quote }}]
  verbs: [create]
{{- end -}}

{{/* Rights on nodes (rbac.readNodes), which are in no namespace: for racks of bookies by a label that pods lack. */}}
{{- define "pulsar-operator.nodeRules" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [get]
{{- end -}}

{{/* Rights of the uninstall hook in each watched namespace: find our objects and take the finalizer off. */}}
{{- define "pulsar-operator.uninstallRules" -}}
- apiGroups: [pulsaroperator.io]
  resources:
    - pulsarinstances
    - pulsarclusters
    - pulsartenants
    - pulsarnamespaces
    - pulsartopics
    - pulsarresourcegroups
    - pulsarisolationpolicies
    - pulsarrebalances
    - pulsartopicsets
  verbs: [get, list, patch]
{{- end -}}

{{/*
Rights on our own kinds, and the look at a namespace. Also granted for the whole Kubernetes cluster (rbac.customResourcesClusterWide): deleting a
namespace deletes the RoleBinding in it before the objects that carry our finalizer, which then could not end.
*/}}
{{- define "pulsar-operator.customResourceRules" -}}
# The custom resources: watched, read, and patched (server-side apply) only to put the finalizer on and take it off.
# No create and no delete: these objects belong to their users. (One exception below.)
- apiGroups: [pulsaroperator.io]
  resources:
    - pulsarinstances
    - pulsarclusters
    - pulsartenants
    - pulsarnamespaces
    - pulsartopics
    - pulsarresourcegroups
    - pulsarisolationpolicies
    - pulsarrebalances
    - pulsartopicsets
  verbs: [get, list, watch, patch]
# The PulsarRebalance <cluster>-balancer, kept while spec.loadBalancing.driver of a PulsarCluster is Operator.
- apiGroups: [pulsaroperator.io]
  resources: [pulsarrebalances]
  verbs: [create, delete]
# Their status: conditions and what was observed, by server-side apply.
- apiGroups: [pulsaroperator.io]
  resources:
    - pulsarinstances/status
    - pulsarclusters/status
    - pulsartenants/status
    - pulsarnamespaces/status
    - pulsartopics/status
    - pulsarresourcegroups/status
    - pulsarisolationpolicies/status
    - pulsarrebalances/status
    - pulsartopicsets/status
  verbs: [patch]
# Needed to name these as owners of child objects where the admission plug-in OwnerReferencesPermissionEnforcement
# is on (OpenShift has it on).
- apiGroups: [pulsaroperator.io]
  resources:
    - pulsarinstances/finalizers
    - pulsarclusters/finalizers
    - pulsarrebalances/finalizers
  verbs: [update]
# Whether the namespace is being deleted, when a request is refused during a deletion.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get]
{{- end -}}

{{/* Rights of people: what the roles view, edit and admin of Kubernetes get by aggregation. No Secret, and no status to write. */}}
{{- define "pulsar-operator.viewRules" -}}
- apiGroups: [pulsaroperator.io]
  resources:
    - pulsarinstances
    - pulsarclusters
    - pulsartenants
    - pulsarnamespaces
    - pulsartopics
    - pulsarresourcegroups
    - pulsarisolationpolicies
    - pulsarrebalances
    - pulsartopicsets
  verbs: [get, list, watch]
- apiGroups: [pulsaroperator.io]
  resources:
    - pulsarinstances/status
    - pulsarclusters/status
    - pulsartenants/status
    - pulsarnamespaces/status
    - pulsartopics/status
    - pulsarresourcegroups/status
    - pulsarisolationpolicies/status
    - pulsarrebalances/status
    - pulsartopicsets/status
  verbs: [get]
- apiGroups: [pulsaroperator.io]
  resources: [pulsarclusters/scale]
  verbs: [get]
{{- end -}}

{{/* Everything but instances. Pause, consents and approvals are annotations, so they come with it. */}}
{{- define "pulsar-operator.editRules" -}}
- apiGroups: [pulsaroperator.io]
  resources:
    - pulsarclusters
    - pulsartenants
    - pulsarnamespaces
    - pulsartopics
    - pulsarresourcegroups
    - pulsarisolationpolicies
    - pulsarrebalances
    - pulsartopicsets
  verbs: [create, update, patch, delete, deletecollection]
- apiGroups: [pulsaroperator.io]
  resources: [pulsarclusters/scale]
  verbs: [update, patch]
{{- end -}}

{{/* Instances: everything else refers to one, and its spec lets other Kubernetes namespaces in. */}}
{{- define "pulsar-operator.adminRules" -}}
- apiGroups: [pulsaroperator.io]
  resources: [pulsarinstances]
  verbs: [create, update, patch, delete, deletecollection]
{{- end -}}
