"""Lists whose entries are managed one by one: permissions and properties.

An entry that leaves the list is taken back in Pulsar. Entries of others stay, unless spec.prune says that the list is
complete.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from pulsar_operator.api.constants import GROUP
from pulsar_operator.api.v1alpha1.base import ApiModel

PATH_SAFE = r"^[^\x00-\x1f\x7f]*[^\x00-\x1f\x7f.][^\x00-\x1f\x7f]*$"
"""No control character, and not only dots: "." and ".." are path syntax, which clients and proxies rewrite even when it
is encoded (Pulsar 4.0.8 itself does so when it asks the partitions of a topic)."""

TRIMMED = r"^[^\x00-\x20\x7f]([^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?$"
"""No control character, and no space at either end: Pulsar refuses such roles of a tenant (class TenantsBase)."""

OWNER_PROPERTY = f"{GROUP}/managed-by"
"""Property in which Pulsar keeps which object manages a namespace or topic; see domain/logical/owners.py."""
MAX_PROPERTIES = 64
PROPERTY_KEY = (
    f"!has(self.properties) || self.properties.all(k, k != '.' && k != '..' && k != '{OWNER_PROPERTY}' && "
    r"size(k) <= 256 && k.matches('^[^\\x00-\\x1f\\x7f]+$'))",
    "a key of properties must have 1 to 256 characters without control characters, and must not be . or .., "
    f"which are path syntax, or {OWNER_PROPERTY}, in which the operator records the managing object",
)
"""CEL rule of a struct with a member ``properties``. Pulsar takes a key with a control character in a body, and answers
400 to the address that would remove it."""


def is_property_key(key: str) -> bool:
    """What PROPERTY_KEY says of one key."""
    return (
        key not in {".", "..", OWNER_PROPERTY}
        and len(key) <= 256
        and re.fullmatch(r"[^\x00-\x1f\x7f]+", key) is not None
    )


def _keyed(properties: dict[str, str]) -> dict[str, str]:
    wrong = next((key for key in properties if not is_property_key(key)), None)
    if wrong is not None:
        raise PydanticCustomError(
            "property_key", "{rule}", {"rule": (f"{wrong[:80]!a} is not allowed, because {PROPERTY_KEY[1]}")}
        )
    return properties


Role = Annotated[str, Field(min_length=1, max_length=512, pattern=PATH_SAFE)]
AdminRole = Annotated[str, Field(min_length=1, max_length=512, pattern=TRIMMED)]
SubscriptionName = Annotated[str, Field(min_length=1, max_length=255, pattern=PATH_SAFE)]
Properties = Annotated[
    dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=MAX_PROPERTIES), AfterValidator(_keyed)
]


class AuthAction(StrEnum):
    """Action that a role may perform."""

    PRODUCE = "Produce"
    CONSUME = "Consume"
    FUNCTIONS = "Functions"
    SOURCES = "Sources"
    SINKS = "Sinks"
    PACKAGES = "Packages"


class Permission(ApiModel):
    """Actions that a role may perform."""

    role: Role
    """Role, as authentication provides it. The role may start or end with an asterisk if the brokers have
    authorizationAllowWildcardsMatching."""
    actions: Annotated[
        list[AuthAction], Field(min_length=1, max_length=6, json_schema_extra={"x-kubernetes-list-type": "set"})
    ]
    """All actions that the role may perform. An action that another writer adds is drift."""


class SubscriptionPermission(ApiModel):
    """Roles that may use a subscription name in all topics of the namespace."""

    subscription: SubscriptionName
    """Name of the subscription that is reserved."""
    roles: Annotated[
        list[Role], Field(min_length=1, max_length=32, json_schema_extra={"x-kubernetes-list-type": "set"})
    ]
    """All roles that may use the subscription. The roles also need permission to consume."""


Permissions = Annotated[
    list[Permission],
    Field(max_length=128, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["role"]}),
]
SubscriptionPermissions = Annotated[
    list[SubscriptionPermission],
    Field(
        max_length=64,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["subscription"]},
    ),
]


class TenantPrune(ApiModel):
    """Lists that are complete: entries in Pulsar that are not declared are removed."""

    admin_roles: bool = False
    """Whether roles that are not in spec.adminRoles are removed from the administrators of the tenant."""


class NamespacePrune(ApiModel):
    """Lists that are complete: entries in Pulsar that are not declared are removed."""

    permissions: bool = False
    """Whether roles that are not in spec.permissions lose their permissions on the namespace."""
    subscription_permissions: bool = False
    """Whether subscriptions that are not in spec.subscriptionPermissions are no longer reserved for roles."""
    properties: bool = False
    """Whether properties that are not in spec.properties are removed."""


class TopicPrune(ApiModel):
    """Lists that are complete: entries in Pulsar that are not declared are removed."""

    permissions: bool = False
    """Whether roles that are not in spec.permissions lose their permissions on the topic. Permissions on the namespace
    stay."""
    properties: bool = False
    """Whether properties that are not in spec.properties are removed."""
