"""Who may do what: schemas of topics, clusters and administrators of tenants, permissions of roles."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pulsar
from pulsar.schema import Integer, JsonSchema, Record, String

from pulsar_conformance.admin import Admin, AdminError
from pulsar_conformance.checks.policies import backlog
from pulsar_conformance.context import Context, Role
from pulsar_conformance.model import CheckFailed, check

_TEXT = {"name": "text", "type": "string"}
FIRST: list[dict[str, Any]] = [_TEXT]
WITH_OPTIONAL: list[dict[str, Any]] = [_TEXT, {"name": "number", "type": ["null", "int"], "default": None}]
WITH_REQUIRED: list[dict[str, Any]] = [_TEXT, {"name": "weight", "type": "int"}]
OTHER_TYPE: list[dict[str, Any]] = [{"name": "text", "type": "int"}]
STRATEGIES = {
    "FULL": (True, False, False),
    "BACKWARD": (True, False, False),
    "FORWARD": (True, True, False),
    "ALWAYS_COMPATIBLE": (True, True, True),
    "ALWAYS_INCOMPATIBLE": (False, False, False),
}
"""Whether an optional field, a required field, another type of a field is accepted, one after the other. The rules:
https://pulsar.apache.org/docs/4.0.x/schema-understand/#schema-compatibility-check-strategy"""


def _record(**fields: Any) -> Any:
    """A class of records with these fields; all have one name, for else they are different records."""
    return type(Record)("Text", (Record,), fields)


Text = _record(text=String())
TextAndNumber = _record(text=String(), number=Integer(required_default=True))
"""With a field more, optional and with a default."""
Number = _record(text=Integer())
"""The same field with another type."""


def _upload(ctx: Context, topic: str, fields: list[dict[str, Any]]) -> int:
    """Upload an Avro schema for a topic; its version. Raises AdminError when it is refused."""
    definition = json.dumps({"type": "record", "name": "Text", "fields": fields})
    body = {"type": "AVRO", "schema": definition, "properties": {}}
    found = ctx.admin.post(f"schemas/{ctx.path(topic).split('/', 1)[1]}/schema", body)
    return int(found["version"]["version"])


@check(
    "schema.strategies",
    proves="Each compatibility strategy accepts the changes of a schema it is for and refuses the others",
    concepts="D.namespace.schema",
    seconds=3,
)
def strategies(ctx: Context) -> str:
    """A namespace for each strategy: three changes of an Avro schema, uploaded one after the other."""
    accepted = []
    for strategy, expected in STRATEGIES.items():
        namespace = ctx.new_namespace()
        ctx.policy("schemaCompatibilityStrategy", strategy, namespace=namespace, method="PUT")
        topic = ctx.topic(namespace=namespace)
        _upload(ctx, topic, FIRST)
        got = []
        for fields in (WITH_OPTIONAL, WITH_REQUIRED, OTHER_TYPE):
            try:
                _upload(ctx, topic, fields)
                got.append(True)
            except AdminError as error:
                ctx.expect(
                    error.status == 409, f"{strategy}: refused with {error.status}, not 409: {error.reason[:70]}"
                )
                got.append(False)
        ctx.expect(
            tuple(got) == expected,
            f"{strategy}: optional field, required field, other type: {got}, not {list(expected)}",
        )
        accepted.append(f"{strategy} {sum(got)}")
    return f"of 3 changes (optional field, required field, other type) accepted: {', '.join(accepted)}"


@check(
    "schema.clients",
    proves="A client whose schema does not fit the topic's is refused; one with a compatible schema adds a version",
    concepts="D.namespace.schema",
    seconds=2,
)
def clients(ctx: Context) -> str:
    """Producers and consumers with JSON schemas in a namespace whose strategy is FULL."""
    ctx.policy("schemaCompatibilityStrategy", "FULL", method="PUT")
    topic = ctx.topic()
    ctx.producer(topic, schema=JsonSchema(Text)).send(Text(text="hello"))
    producer = ctx.refused(pulsar.IncompatibleSchema, lambda: ctx.producer(topic, schema=JsonSchema(Number)))
    ctx.refused(pulsar.IncompatibleSchema, lambda: ctx.consumer(topic, "number", schema=JsonSchema(Number)))
    try:
        ctx.producer(topic, schema=JsonSchema(TextAndNumber)).send(TextAndNumber(text="again", number=2))
    except pulsar.IncompatibleSchema as error:
        raise CheckFailed(f"a producer with one more optional field was refused: {error}") from None
    found = ctx.admin.get(f"schemas/{ctx.path(topic).split('/', 1)[1]}/schemas")["getSchemaResponses"]
    ctx.expect(len(found) == 2, f"the topic has {len(found)} versions of its schema, not 2")
    values = [message.value().text for message in ctx.receive(ctx.consumer(topic, schema=JsonSchema(Text)), 2)]
    ctx.expect(values == ["hello", "again"], f"a consumer of the first version read {values}")
    return f"other type refused ({producer}); optional field became version 1; the first version's reader got both"


@check(
    "schema.message_version",
    proves="Each message carries the version of the schema it was written with, also after the schema has changed",
    concepts="E.schema.version",
    seconds=2,
)
def message_version(ctx: Context) -> str:
    """Two versions of a JSON schema, the first one used again after the second, and plain bytes."""
    ctx.policy("schemaCompatibilityStrategy", "FULL", method="PUT")
    if ctx.setting("isSchemaValidationEnforced") != "true":
        ctx.policy("schemaValidationEnforced", False)
    topic = ctx.topic()
    consumer = ctx.consumer(topic)
    first = ctx.producer(topic, schema=JsonSchema(Text))
    first.send(Text(text="one"))
    ctx.producer(topic, schema=JsonSchema(TextAndNumber)).send(TextAndNumber(text="two", number=2))
    first.send(Text(text="three"))
    messages = ctx.receive(consumer, 3)
    # Eight bytes, which the Python client gives as text.
    reported = [int.from_bytes(message.schema_version().encode(), "big") for message in messages]
    found = ctx.admin.get(f"schemas/{ctx.path(topic).split('/', 1)[1]}/schemas")["getSchemaResponses"]
    versions = [one["version"] for one in found]
    ctx.expect(versions == [0, 1], f"versions of the topic's schema, by admin REST: {versions}")
    ctx.expect(reported == [0, 1, 0], f"written with versions 0, 1 and 0, the messages say {reported}")
    if ctx.setting("isSchemaValidationEnforced") == "true":
        return f"written with versions 0, 1, 0: the messages say {reported}; versions by admin REST {versions}"
    ctx.send(ctx.producer(topic), ["bytes"])
    bare = ctx.receive(consumer, 1)[0].schema_version()
    ctx.expect(bare == "", f"bytes without a schema say version {bare!r}")
    return (
        f"written with versions 0, 1, 0: the messages say {reported}, one without a schema says none; REST {versions}"
    )


@check(
    "schema.validation_enforced",
    proves="schemaValidationEnforced refuses producers without a schema on topics that have one; without it they may",
    concepts="D.namespace.schema",
    seconds=2,
)
def validation_enforced(ctx: Context) -> str:
    """A producer of plain bytes, before and after the policy."""
    topic = ctx.topic()
    ctx.producer(topic, schema=JsonSchema(Text)).send(Text(text="hello"))
    if ctx.setting("isSchemaValidationEnforced") != "true":
        ctx.policy("schemaValidationEnforced", False)
        ctx.producer(topic).close()
    ctx.policy("schemaValidationEnforced", True)
    refusal = _comes_true(ctx, pulsar.IncompatibleSchema, lambda: ctx.producer(topic).close())
    ctx.producer(topic, schema=JsonSchema(Text)).send(Text(text="again"))
    return f"bytes refused once it is enforced ({refusal}); a producer with the schema still publishes"


@check(
    "schema.auto_update",
    proves="With isAllowAutoUpdateSchema off no client adds a schema, however compatible; the known one works",
    concepts="D.namespace.schema",
    seconds=2,
)
def auto_update(ctx: Context) -> str:
    """A compatible new schema by a client."""
    topic = ctx.topic()
    ctx.producer(topic, schema=JsonSchema(Text)).send(Text(text="hello"))
    ctx.policy("isAllowAutoUpdateSchema", False)
    more = itertools.count()

    def another() -> None:
        # Another one each time: one accepted before the policy reached the broker is a known one then.
        fields = {f"number{next(more)}": Integer(required_default=True)}
        ctx.producer(topic, schema=JsonSchema(_record(text=String(), **fields))).close()

    refusal = _comes_true(ctx, pulsar.IncompatibleSchema, another)
    ctx.producer(topic, schema=JsonSchema(Text)).send(Text(text="again"))
    return f"a producer with one more optional field refused ({refusal}), one with the known schema still publishes"


def _comes_true(ctx: Context, error: type[BaseException], call: Callable[[], object]) -> str:
    """Until a policy has reached the broker and the call is refused with that error; its text."""
    return ctx.eventually(lambda: ctx.refused(error, call), f"refused with {error.__name__}", within=15)


@check(
    "tenant.clusters",
    proves="A namespace may only use the clusters its tenant allows",
    concepts="D.tenant",
    seconds=1,
)
def tenant_clusters(ctx: Context) -> str:
    """A namespace with a cluster the tenant does not list: at its creation and when its clusters are changed."""
    allowed = ctx.admin.get(f"tenants/{ctx.instance.tenant}")["allowedClusters"]
    foreign = f"{ctx.namespace.split('/')[1]}-elsewhere"
    ctx.admin.put(
        f"clusters/{foreign}", {"serviceUrl": "http://127.0.0.1:1", "brokerServiceUrl": "pulsar://127.0.0.1:1"}
    )
    ctx.defer(lambda: ctx.admin.delete(f"clusters/{foreign}"))
    namespace = ctx.namespace
    at_creation = ctx.refused(AdminError, lambda: ctx.new_namespace(replication_clusters=[foreign]))
    ctx.refused(AdminError, lambda: ctx.policy("replication", [*allowed, foreign]))
    kept = ctx.admin.get(f"namespaces/{namespace}/replication")
    ctx.expect(foreign not in kept, f"the namespace's clusters are now {kept}")
    ctx.refused(AdminError, lambda: ctx.admin.put(f"namespaces/{foreign}/namespace"))
    return f"tenant allows {allowed}: {at_creation.split(': ', 1)[1].split(' for tenant')[0]}"


# --- roles


def _role(ctx: Context) -> Role:
    ctx.require(
        ctx.setting("authorizationEnabled") == "true",
        "the brokers run without authorization: switch it on, then --token-file, --role and --role-token-file",
    )
    found = ctx.instance.role
    if found is None:
        ctx.require(False, "needs a role without rights and its token: --role and --role-token-file")
        raise AssertionError
    return found


def _grant(ctx: Context, role: Role, *actions: str) -> None:
    ctx.policy(f"permissions/{role.name}", list(actions))


def _revoke(ctx: Context, role: Role) -> None:
    ctx.admin.delete(f"namespaces/{ctx.namespace}/permissions/{role.name}")


def _may(ctx: Context, call: Callable[[], object], what: str) -> None:
    """Until the role may do it. Raises CheckFailed when it is not allowed to within 20 s."""

    def probe() -> bool:
        try:
            call()
        except pulsar.AuthorizationError as error:
            raise CheckFailed(str(error)) from None
        return True

    ctx.eventually(probe, what)


@check(
    "permissions.none",
    proves="A role without rights can neither produce nor consume nor read nor administer",
    concepts="D.namespace.permissions",
    seconds=2,
)
def permissions_none(ctx: Context) -> str:
    """Four refusals for the role, and the same topic used by the suite's own role."""
    role = _role(ctx)
    topic = ctx.topic()
    _revoke(ctx, role)
    client = ctx.client(access=ctx.as_role(role))
    denied = pulsar.AuthorizationError
    produce = ctx.refused(denied, lambda: ctx.producer(topic, client=client))
    ctx.refused(denied, lambda: ctx.consumer(topic, client=client))
    ctx.refused(denied, lambda: ctx.reader(topic, client=client))
    admin = Admin(ctx.instance.admin_url, ctx.tamper, ctx.as_role(role))
    refusal = ctx.refused(AdminError, lambda: admin.get(f"namespaces/{ctx.namespace}"))
    consumer = ctx.consumer(topic, client=ctx.client())
    ctx.send(ctx.producer(topic, client=ctx.client()), ["m"])
    ctx.receive(consumer, 1)
    return f"{role.name}: produce, consume and read refused ({produce}), admin REST {refusal.split(': ', 1)[1][:60]}"


@check(
    "permissions.produce",
    proves="A role granted produce can produce and cannot consume",
    concepts="D.namespace.permissions",
    seconds=2,
)
def permissions_produce(ctx: Context) -> str:
    """Grant of produce alone; what it sent is read by the suite's own role."""
    role = _role(ctx)
    topic = ctx.topic()
    client = ctx.client(access=ctx.as_role(role))
    _grant(ctx, role, "produce")
    _may(ctx, lambda: ctx.producer(topic, client=client).send(b"mine"), "the role may produce")
    refusal = ctx.refused(pulsar.AuthorizationError, lambda: ctx.consumer(topic, client=client))
    got = ctx.texts(ctx.receive(ctx.consumer(topic, client=ctx.client()), 1))
    ctx.expect(got == ["mine"], f"the suite's role read {got}")
    return f"{role.name} granted produce: its message was stored, its consumer refused ({refusal})"


@check(
    "permissions.consume",
    proves="A role granted consume can consume and cannot produce",
    concepts="D.namespace.permissions",
    seconds=2,
)
def permissions_consume(ctx: Context) -> str:
    """Grant of consume alone; it reads what the suite's own role sent."""
    role = _role(ctx)
    topic = ctx.topic()
    client = ctx.client(access=ctx.as_role(role))
    _grant(ctx, role, "consume")
    _may(ctx, lambda: ctx.consumer(topic, client=client).close(), "the role may consume")
    ctx.send(ctx.producer(topic, client=ctx.client()), ["theirs"])
    got = ctx.texts(ctx.receive(ctx.consumer(topic, client=client), 1))
    ctx.expect(got == ["theirs"], f"the role read {got}")
    refusal = ctx.refused(pulsar.AuthorizationError, lambda: ctx.producer(topic, client=client))
    return f"{role.name} granted consume: it read the message, its producer was refused ({refusal})"


@check(
    "permissions.revoked",
    proves="A right taken away is gone for new clients, and running ones are cut off",
    concepts="D.namespace.permissions",
    seconds=3,
)
def permissions_revoked(ctx: Context) -> str:
    """A producer runs, its right is revoked: the broker closes it and takes no new one."""
    role = _role(ctx)
    topic = ctx.topic()
    client = ctx.client(access=ctx.as_role(role))
    _grant(ctx, role, "produce", "consume")
    consumer = ctx.consumer(topic, client=ctx.client())
    _may(ctx, lambda: ctx.producer(topic, client=client).send(b"m"), "the role may produce")
    ctx.expect(len(ctx.stats(topic)["publishers"]) >= 1, "the role's producer is not there")
    _revoke(ctx, role)
    refusal = _comes_true(ctx, pulsar.AuthorizationError, lambda: ctx.producer(topic, client=client).close())
    ctx.eventually(lambda: not ctx.stats(topic)["publishers"], "the running producer is cut off")
    ctx.refused(pulsar.AuthorizationError, lambda: ctx.consumer(topic, "other", client=client))
    ctx.receive(consumer, 1)
    ctx.eventually(lambda: backlog(ctx, topic) == 0, "only what it was allowed to send was stored")
    return f"{role.name}: its producer was closed by the revoke and a new one refused ({refusal}), as was a consumer"


@check(
    "permissions.other_namespace",
    proves="A right in one namespace is none in another of the same tenant",
    concepts="D.namespace.permissions",
    seconds=2,
)
def permissions_other_namespace(ctx: Context) -> str:
    """Granted in the first, refused in the second."""
    role = _role(ctx)
    client = ctx.client(access=ctx.as_role(role))
    topic = ctx.topic()
    other = ctx.topic(namespace=ctx.new_namespace())
    _grant(ctx, role, "produce", "consume")
    _may(ctx, lambda: ctx.producer(topic, client=client).send(b"m"), "the role may produce")
    refusal = ctx.refused(pulsar.AuthorizationError, lambda: ctx.producer(other, client=client))
    ctx.refused(pulsar.AuthorizationError, lambda: ctx.consumer(other, client=client))
    return f"{role.name} granted all in one namespace: refused in the tenant's other one ({refusal})"


@check(
    "tenant.admin",
    proves="An administrator of a tenant may administer its namespaces and none of another tenant",
    concepts="D.tenant",
    seconds=2,
)
def tenant_admin(ctx: Context) -> str:
    """The role is made administrator of a tenant of the check's own, then no longer."""
    role = _role(ctx)
    tenant = ctx.namespace.split("/")[1]
    clusters = ctx.admin.get(f"tenants/{ctx.instance.tenant}")["allowedClusters"]
    ctx.admin.put(f"tenants/{tenant}", {"adminRoles": [role.name], "allowedClusters": clusters})
    ctx.defer(lambda: ctx.admin.delete(f"tenants/{tenant}"))
    admin = Admin(ctx.instance.admin_url, ctx.tamper, ctx.as_role(role))
    ctx.defer(lambda: ctx.admin.delete(f"namespaces/{tenant}/own"))
    try:
        admin.put(f"namespaces/{tenant}/own")
    except AdminError as error:
        raise CheckFailed(f"{role.name}, administrator of {tenant}, was refused: {error}") from None
    other = ctx.refused(AdminError, lambda: admin.post(f"namespaces/{ctx.namespace}/messageTTL", 5))
    ctx.refused(
        AdminError, lambda: admin.put(f"tenants/{tenant}-more", {"adminRoles": [], "allowedClusters": clusters})
    )
    ctx.admin.post(f"tenants/{tenant}", {"adminRoles": [], "allowedClusters": clusters})
    ctx.eventually(
        lambda: ctx.refused(AdminError, lambda: admin.post(f"namespaces/{tenant}/own/messageTTL", 5)),
        "refused when the role is no administrator any more",
    )
    return (
        f"{role.name} made a namespace in its tenant; in another {other.split(': ', 1)[1][:60]}; refused once removed"
    )
