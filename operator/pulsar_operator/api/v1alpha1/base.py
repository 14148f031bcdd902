"""Building blocks shared by all kinds: model base, names, references, conditions, volumes."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel


def validations(*rules: tuple[str, str]) -> dict[str, Any]:
    """CEL rules as JSON-Schema extra: pairs of (rule, message). Source: Kubernetes docs, CRD validation rules."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in rules]}


RETAIN_FIRST = (
    "To change it without deleting data, set spec.deletionPolicy to Retain, delete the object and create it again"
)
"""What changes an immutable field of an object with a deletion policy."""
RECLAIM_FIRST = (
    "To change it without deleting volumes, set spec.reclaimPolicy to Retain, delete the object and create it again"
)
"""The same for an object with volumes."""


def immutable(
    field: str, *, at: str = "spec.", why: str = "it names existing data", remedy: str = RETAIN_FIRST
) -> tuple[str, str]:
    """A CEL rule of a struct that refuses a change, an addition and a removal of its member ``field``.

    ``at`` is the struct's path in the message.

    Field-level transition rules do not run when a field appears or disappears, hence ``has()`` on both sides.
    """
    return (
        f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})",
        f"{at}{field} is immutable, because {why}. {remedy}",
    )


class ApiModel(BaseModel):
    """Base of every API struct: camelCase on the wire, frozen, descriptions from attribute docstrings.

    Unknown fields are refused by strict field validation of the API server (kubectl's default) and pruned otherwise,
    so reading ignores them: an object written by a newer operator must stay readable.
    """

    model_config = ConfigDict(
        hide_input_in_errors=True,  # such an error may reach the log
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        extra="ignore",
        use_attribute_docstrings=True,
    )


class Rows(ApiModel):
    """Base of a status struct whose members are rows, one for each of a fixed set of names. A row that cannot be read
    affects only itself (`domain/stored.py`)."""


DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_1035 = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"


def object_name_rule(kind: str, *, max_length: int, why: str) -> tuple[str, str]:
    """A CEL rule for the root of a kind whose metadata.name becomes part of Service and StatefulSet names.

    Services need a DNS-1035 label; a StatefulSet's name has at most 52 characters, since the label
    controller-revision-hash (at most 63) is that name and 11 more characters.
    """
    return (
        f"self.metadata.name.size() <= {max_length} && self.metadata.name.matches('{DNS_1035}')",
        f"metadata.name of a {kind} must be a DNS-1035 label (a-z, 0-9, -, starting with a letter) of at most "
        f"{max_length} characters, because {why}",
    )


MAX_PENDING: Final = 200
"""Entries of status.pendingActions."""
MAX_CLUSTERS: Final = 256
"""Rows of clusters in a status."""
PULSAR_NAME = r"^[-=:.A-Za-z0-9_]*[-=:A-Za-z0-9_][-=:.A-Za-z0-9_]*$"
"""Characters Pulsar allows in tenant, namespace and cluster names (class NamedEntity, pattern ``^[-=:.\\w]*$``, ASCII
in Java), at least one of them not a dot: ZooKeeper refuses "." and ".." in paths (PathUtils.validatePath)."""

QUANTITY = (
    r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"  # apimachinery resource.Quantity, as the API server checks it
)

ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
Quantity = Annotated[
    str | int, Field(json_schema_extra={"x-kubernetes-int-or-string": True, "pattern": QUANTITY, "maxLength": 32})
]
VOLUME_SIZE_RULE = (
    "type(self.size) == int ? self.size > 0 : "
    "(isQuantity(self.size) && quantity(self.size).isGreaterThan(quantity('0')))",
    "size must be a quantity greater than 0, such as 10Gi",
)
PulsarName = Annotated[str, Field(min_length=1, max_length=128, pattern=PULSAR_NAME)]
ClusterName = Annotated[str, Field(min_length=1, max_length=128, pattern=PULSAR_NAME)]
ClusterNames = Annotated[list[str], Field(max_length=256, json_schema_extra={"x-kubernetes-list-type": "set"})]
"""Names of clusters as Pulsar has them, in a status."""


class ObjectReference(ApiModel):
    """Reference to a custom resource of this API group."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    name: ObjectName
    """Name of the object that is referenced."""
    namespace: Annotated[str, Field(min_length=1, max_length=63, pattern=DNS_LABEL)] | None = None
    """Kubernetes namespace of the referenced object. An object in another namespace must list the namespace of this
    object in spec.allowedKubernetesNamespaces. If unset, the namespace of this object is used."""


AllowedKubernetesNamespaces = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=63)]],
    Field(max_length=256, json_schema_extra={"x-kubernetes-list-type": "set"}),
]


class DeletionPolicy(StrEnum):
    """What happens in Pulsar when the Kubernetes object is deleted."""

    RETAIN = "Retain"
    DELETE = "Delete"
    FORCE_DELETE = "ForceDelete"


class DriftPolicy(StrEnum):
    """What happens when a declared value was changed in Pulsar by another writer."""

    REPAIR = "Repair"
    REPORT = "Report"


class ReclaimPolicy(StrEnum):
    """What happens to volumes when the Kubernetes object is deleted."""

    RETAIN = "Retain"
    DELETE = "Delete"


class Preset(StrEnum):
    """Default compute resources, JVM settings and cache sizes of the components. A preset has no replica counts."""

    SMALL = "Small"
    PRODUCTION = "Production"


PulsarVersion = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^4\.[0-9]+\.[0-9]+(-[A-Za-z0-9.]+)?$")]


class ConditionStatus(StrEnum):
    """Status of a condition. Unknown means that the operator could not determine it."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


def _moment(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("the time must have a time zone")
    return text


Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
ReadTime = Annotated[Time, AfterValidator(_moment)]
"""One that is read back. The API server takes more for a time than can be read, such as small letters: a status with
one counts as lost, and the next one overwrites it."""


class Condition(ApiModel):
    """One condition, with the fields of metav1.Condition."""

    type: Annotated[str, Field(max_length=316)]
    """Type of the condition, such as Ready."""
    status: ConditionStatus
    """True, False, or Unknown if the operator could not determine the status."""
    observed_generation: int | None = None
    """Value of metadata.generation from which the operator computed the condition."""
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """Time at which the status last changed."""
    reason: Annotated[str, Field(max_length=1024)]
    """CamelCase reason of the status. The documentation lists all reasons."""
    message: Annotated[str, Field(max_length=32768)]
    """Explanation of the reason."""


Conditions = Annotated[
    list[Condition],
    Field(
        max_length=32,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]


UNOBSERVED = -1
"""status.observedGeneration that the API server gives a new object, which tools such as kstatus would take for ready
otherwise. To the operator it is the same as none."""


def _observed(generation: Any) -> Any:
    return None if generation == UNOBSERVED else generation


class CommonStatus(ApiModel):
    """Status fields every kind has."""

    observed_generation: Annotated[int | None, BeforeValidator(_observed)] = None
    """Value of metadata.generation that the conditions describe. The value -1 means that the operator has not observed
    the object yet."""
    conditions: Conditions = Field(default_factory=list)
    """Conditions of the object, one for each type. Ready summarizes the others."""
    pending_actions: Annotated[list[str], Field(max_length=MAX_PENDING)] | None = None
    """Actions that the operator would perform without the dry-run annotation. Unset without that annotation."""

    def condition(self, kind: str) -> Condition | None:
        """The stored condition of a type; None where there is none."""
        return next((each for each in self.conditions if each.type == kind), None)


class Storage(ApiModel):
    """A volume claim."""

    model_config = ConfigDict(json_schema_extra=validations(VOLUME_SIZE_RULE))

    size: Quantity = "10Gi"
    """Size that each volume requests."""
    storage_class_name: Annotated[str, Field(max_length=253)] | None = None
    """StorageClass of the volumes. If unset, the default StorageClass of the Kubernetes cluster is used."""


STORAGE_IMMUTABLE = (
    (
        "has(self.storage.storageClassName) == has(oldSelf.storage.storageClassName) && "
        "(!has(self.storage.storageClassName) || "
        "self.storage.storageClassName == oldSelf.storage.storageClassName)",
        "storage.storageClassName is immutable, because the class of existing volumes cannot be changed",
    ),
    (
        "self.storage.size == oldSelf.storage.size",
        "storage.size is immutable in this version, because existing volumes are not resized",
    ),
)
"""CEL rules for a struct with a member ``storage``."""


class Resources(ApiModel):
    """Compute resources of a container."""

    requests: Annotated[dict[str, Quantity], Field(max_length=16)] | None = None
    """Amounts that are requested, by resource name. If unset, Kubernetes requests the limits."""
    limits: Annotated[dict[str, Quantity], Field(max_length=16)] | None = None
    """Amounts that must not be exceeded, by resource name. If unset, the operator sets no limits."""


FILE_PATH = r"^(/[A-Za-z0-9_.-]*[A-Za-z0-9_-][A-Za-z0-9_.-]*)+$"
"""An absolute path; no part consists of dots alone, and none has a character that means something to the JVM."""


class Jvm(ApiModel):
    """Java memory and JVM arguments of a process."""

    heap: Annotated[str, Field(pattern=r"^[0-9]+[kKmMgG]$", max_length=16)] | None = None
    """Maximum and initial heap size in Java notation, such as 512m. If unset, spec.preset determines both."""
    direct_memory: Annotated[str, Field(pattern=r"^[0-9]+[kKmMgG]$", max_length=16)] | None = None
    """Maximum direct memory in Java notation. If unset, spec.preset determines the size."""
    heap_dump_path: Annotated[str, Field(max_length=256, pattern=FILE_PATH)] | None = None
    """Directory for a heap dump if Java runs out of memory. The directory must be in /tmp, /pulsar/logs or a writable
    entry of volumeMounts. If unset, no dump is written."""
    gc_log_path: Annotated[str, Field(max_length=256, pattern=FILE_PATH)] | None = None
    """File in which Java logs garbage collection, rotated over 5 files of 20 MiB. The file must be in /tmp,
    /pulsar/logs or a writable entry of volumeMounts. If unset, no log is written."""
    options: Annotated[list[Annotated[str, Field(min_length=2, max_length=512)]], Field(max_length=64)] | None = None
    """Additional JVM arguments, which come last. A garbage collector that they select replaces that of spec.preset. If
    unset, none are added."""


ConfigMapValues = Annotated[
    dict[str, Annotated[str, Field(max_length=8192)]],
    Field(max_length=512),
]
"""Settings laid over the rendered configuration file, key to value."""
