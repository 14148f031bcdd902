"""Where the benchmark's objects are."""

from pulsar_operator.api.constants import GROUP

NAMESPACE = "bench"
TOPICS = f"/apis/{GROUP}/v1alpha1/namespaces/{NAMESPACE}/pulsartopics"
