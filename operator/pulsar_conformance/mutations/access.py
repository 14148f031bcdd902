"""What breaks the checks of schemas, tenants and permissions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pulsar.schema import JsonSchema

from pulsar_conformance.checks.access import Text
from pulsar_conformance.tamper import Mutation, Rule, change_admin, drop_admin

ALL = ["produce", "consume"]
GRANT_ALL = change_admin("POST", r"/permissions/", lambda _body: ALL)


def _grant_instead(call: Callable[..., Any], _method: str, path: str, *_args: Any, **_kwargs: Any) -> Any:
    return call("POST", path, ALL)


def _grant_in_the_next_too(call: Callable[..., Any], method: str, path: str, body: Any = None, **query: Any) -> Any:
    """The check's second namespace has the first one's name with another number."""
    call(method, path.replace("-0/permissions", "-1/permissions"), body, **query)
    return call(method, path, body, **query)


def _first_version(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return call(*args, **{**options, "schema": _FirstVersion()})


def _has_schema(*_args: Any, **options: Any) -> bool:
    return "schema" in options


class _FirstVersion(JsonSchema):  # type: ignore[misc]  # the client library has no types
    """The first version of the schema, whatever is written."""

    def __init__(self) -> None:
        super().__init__(Text)

    def encode(self, _obj: Any) -> bytes:
        """A record of that version."""
        return b'{"text": "two"}'


MUTATIONS = (
    Mutation(
        "schema.strategies",
        "default",
        "no namespace gets its strategy",
        (drop_admin("PUT", r"/schemaCompatibilityStrategy$"),),
    ),
    Mutation(
        "schema.clients",
        "always",
        "any schema is compatible",
        (change_admin("PUT", r"/schemaCompatibilityStrategy$", lambda _body: "ALWAYS_COMPATIBLE"),),
    ),
    Mutation(
        "schema.clients",
        "never",
        "no schema is compatible",
        (change_admin("PUT", r"/schemaCompatibilityStrategy$", lambda _body: "ALWAYS_INCOMPATIBLE"),),
    ),
    Mutation(
        "schema.message_version",
        "first",
        "all messages are written with the first version",
        (Rule("client", "create_producer", _first_version, _has_schema),),
    ),
    Mutation(
        "schema.validation_enforced",
        "off",
        "the policy is not set",
        (change_admin("POST", r"/schemaValidationEnforced$", lambda _body: False),),
    ),
    Mutation("schema.auto_update", "on", "the policy is not set", (drop_admin("POST", r"/isAllowAutoUpdateSchema$"),)),
    Mutation(
        "tenant.clusters",
        "own",
        "the namespace asks for no foreign cluster",
        (change_admin("PUT", r"^namespaces/[^/]+/[^/]+$", lambda _body: None),),
    ),
    Mutation(
        "tenant.clusters",
        "allowed",
        "the change of clusters is not made",
        (drop_admin("POST", r"/replication$"),),
    ),
    Mutation(
        "permissions.none",
        "granted",
        "the role has every right",
        (
            Rule(
                "admin",
                "call",
                _grant_instead,
                lambda method, path, *_args, **_kwargs: method == "DELETE" and "/permissions/" in path,
            ),
        ),
    ),
    Mutation("permissions.produce", "all", "the role gets every right", (GRANT_ALL,)),
    Mutation("permissions.produce", "none", "the role gets no right", (drop_admin("POST", r"/permissions/"),)),
    Mutation("permissions.consume", "all", "the role gets every right", (GRANT_ALL,)),
    Mutation("permissions.consume", "none", "the role gets no right", (drop_admin("POST", r"/permissions/"),)),
    Mutation("permissions.revoked", "kept", "the right is not taken away", (drop_admin("DELETE", r"/permissions/"),)),
    Mutation(
        "permissions.other_namespace",
        "both",
        "the other namespace grants the same",
        (
            Rule(
                "admin",
                "call",
                _grant_in_the_next_too,
                lambda method, path, *_args, **_kwargs: method == "POST" and "/permissions/" in path,
            ),
        ),
    ),
    Mutation(
        "tenant.admin",
        "nobody",
        "the role is no administrator",
        (change_admin("PUT", r"^tenants/", lambda body: {**body, "adminRoles": []}),),
    ),
    Mutation("tenant.admin", "kept", "the role stays administrator", (drop_admin("POST", r"^tenants/"),)),
)
