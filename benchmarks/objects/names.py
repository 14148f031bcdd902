"""Where the benchmark's objects are."""

from pulsar_operator.api.constants import GROUP, PLURALS, Kind

NAMESPACE = "bench"
KINDS = {plural: kind.value for kind, plural in PLURALS.items()}
"""Kind by plural."""


def objects(plural: str) -> str:
    """Path of the objects of a kind."""
    return f"/apis/{GROUP}/v1alpha1/namespaces/{NAMESPACE}/{plural}"


TOPICS = objects(PLURALS[Kind.TOPIC])
