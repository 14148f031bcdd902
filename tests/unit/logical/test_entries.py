"""Lists managed entry by entry, through the controllers: permissions and properties."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from pulsar_operator.api.constants import Kind
from pulsar_operator.api.v1alpha1.namespace import PulsarNamespaceSpec
from pulsar_operator.domain.policies.model import NOT_SHOWN
from pulsar_operator.ports import CUSTOM, Json
from tests.fakes.admin import AdminCall
from tests.fakes.killed import Killed
from tests.support.logical.lists import Scenario, of_users
from tests.support.logical.world import DRY_RUN, NS, PAUSED, LogicalWorld

X = "persistent://t/n/x"
HOSTILE = ("a/b", "a%2Fb", "..a", "q?x=1", "a]b[c", "ü-λ")


def grants(**roles: list[str]) -> list[Json]:
    """Permissions as in a manifest."""
    return [{"role": role, "actions": actions} for role, actions in roles.items()]


async def world(*clusters: str, **namespace: Any) -> LogicalWorld:
    """A tenant and namespace n with these fields."""
    w = LogicalWorld(*clusters)
    w.tenant()
    w.namespace(**namespace)
    await w.run()
    return w


def access(w: LogicalWorld, kind: str = "namespace_auth") -> dict[str, Any]:
    """What Pulsar keeps of permissions of the namespace."""
    return dict(w.pulsar.namespaces["t/n"]["auth_policies"][kind])


async def test_lists_of_a_namespace_are_set_once_and_written_ahead() -> None:
    w = LogicalWorld()
    ahead: list[list[str]] = []

    def look(call: AdminCall) -> None:
        if call.is_write and "permissions" in call.path:
            ahead.append(w.status(Kind.NAMESPACE, "n")["managedFields"])

    w.admin.before.append(look)
    w.tenant()
    w.namespace(
        permissions=grants(app=["Produce", "Consume"], ops=["Functions"]),
        subscriptionPermissions=[{"subscription": "s", "roles": ["app", "ops"]}],
        properties={"team": "shop", "empty": ""},
    )
    await w.run()
    assert {role: set(actions) for role, actions in access(w).items()} == {
        "app": {"produce", "consume"},
        "ops": {"functions"},
    }
    assert access(w, "subscription_auth_roles") == {"s": ["app", "ops"]}
    assert of_users(w.pulsar.namespaces["t/n"]["properties"]) == {"team": "shop", "empty": ""}
    fields = [
        "permissions[app]",
        "permissions[ops]",
        "properties[empty]",
        "properties[team]",
        "subscriptionPermissions[s]",
    ]
    assert w.status(Kind.NAMESPACE, "n")["managedFields"] == fields
    assert ahead and all(each == fields for each in ahead), "before the first write"
    assert [path for method, path in w.admin.writes if method == "PUT" and "properties" in path] == [
        "namespaces/t/n/properties"
    ], "one call for all properties"
    assert w.condition(Kind.NAMESPACE, "n")[0] == "True"
    assert await w.second_pass_writes() == ([], [])


async def test_an_entry_that_leaves_is_taken_back_and_those_of_others_stay() -> None:
    w = await world(
        permissions=grants(app=["Produce"], ops=["Functions"]),
        subscriptionPermissions=[{"subscription": "s", "roles": ["app", "ops"]}, {"subscription": "u", "roles": ["r"]}],
        properties={"team": "shop", "cost": "1"},
    )
    live = w.pulsar.namespaces["t/n"]
    live["auth_policies"]["namespace_auth"]["theirs"] = ["produce"]
    live["auth_policies"]["subscription_auth_roles"]["theirs"] = ["x"]
    live["properties"]["theirs"] = "y"
    w.namespace(permissions=grants(app=["Produce"]), properties={"team": "shop"})
    await w.run()
    assert access(w) == {"app": ["produce"], "theirs": ["produce"]}
    assert access(w, "subscription_auth_roles") == {"theirs": ["x"]}
    assert of_users(live["properties"]) == {"team": "shop", "theirs": "y"}
    assert w.status(Kind.NAMESPACE, "n")["managedFields"] == ["permissions[app]", "properties[team]"]
    w.namespace()
    await w.run()
    assert access(w) == {"theirs": ["produce"]}
    assert of_users(live["properties"]) == {"theirs": "y"}
    assert w.status(Kind.NAMESPACE, "n").get("managedFields", []) == []
    assert await w.second_pass_writes() == ([], [])


async def test_with_an_empty_status_nothing_is_taken_back() -> None:
    w = await world(permissions=grants(app=["Produce"]), properties={"a": "b"})
    w.kube.set_status(CUSTOM[Kind.NAMESPACE], NS, "n", {})
    w.namespace()
    await w.run()
    assert access(w) == {"app": ["produce"]}
    assert of_users(w.pulsar.namespaces["t/n"]["properties"]) == {"a": "b"}


@pytest.mark.parametrize("policy", ["Repair", "Report"])
async def test_drift_is_reported_per_entry(policy: str) -> None:
    w = await world(
        permissions=grants(app=["Produce"], ops=["Functions"]),
        subscriptionPermissions=[{"subscription": "s", "roles": ["app"]}],
        properties={"a": "1", "b": "2"},
        driftPolicy=policy,
    )
    live = w.pulsar.namespaces["t/n"]
    live["auth_policies"]["namespace_auth"]["app"] = ["produce", "consume"]
    live["auth_policies"]["subscription_auth_roles"]["s"] = ["intruder"]
    del live["properties"]["b"]
    await w.run()
    if policy == "Repair":
        assert access(w) == {"app": ["produce"], "ops": ["functions"]}
        assert access(w, "subscription_auth_roles") == {"s": ["app"]}
        assert of_users(live["properties"]) == {"a": "1", "b": "2"}
        assert w.reasons(Kind.NAMESPACE).count("DriftRepaired") == 3
        return
    drift = {each["field"]: (each["desired"], each["actual"]) for each in w.status(Kind.NAMESPACE, "n")["drift"]}
    assert drift == {
        "permissions[app]": ('["Produce"]', '["Consume", "Produce"]'),
        "subscriptionPermissions[s]": ('["app"]', '["intruder"]'),
        "properties[b]": (NOT_SHOWN, "not set"),
    }
    assert w.condition(Kind.NAMESPACE, "n", "Drifted")[:2] == ("True", "DriftDetected")


async def test_an_exact_list_loses_what_is_not_declared() -> None:
    w = await world(permissions=grants(app=["Produce"]))
    held = w.pulsar.namespaces["t/n"]["auth_policies"]["namespace_auth"]
    held |= {"old": ["consume"], "odd": ["fly"]}
    w.namespace(permissions=grants(app=["Produce"]), prune={"permissions": True})
    await w.run()
    assert held == {"app": ["produce"]}
    assert "DriftRepaired" not in w.reasons(Kind.NAMESPACE), "they were there before the list was complete"
    held["intruder"] = ["produce"]
    w.pulsar.namespaces["t/n"]["properties"]["theirs"] = "y"
    await w.run()
    assert held == {"app": ["produce"]}
    assert w.reasons(Kind.NAMESPACE).count("DriftRepaired") == 1
    assert of_users(w.pulsar.namespaces["t/n"]["properties"]) == {"theirs": "y"}, "that list is not complete"
    assert w.status(Kind.NAMESPACE, "n")["managedFields"] == ["permissions[app]"]
    w.namespace(prune={"permissions": True})
    await w.run()
    assert held == {}, "an absent list is an empty one"


async def test_an_exact_list_under_report_only_shows() -> None:
    w = await world(prune={"properties": True}, driftPolicy="Report")
    w.pulsar.namespaces["t/n"]["properties"]["theirs\nFAKE"] = "y"
    await w.run()
    assert of_users(w.pulsar.namespaces["t/n"]["properties"]) == {"theirs\nFAKE": "y"}
    (entry,) = w.status(Kind.NAMESPACE, "n")["drift"]
    assert (entry["desired"], entry["actual"]) == ("not set", NOT_SHOWN)
    message = w.condition(Kind.NAMESPACE, "n", "Drifted")[2]
    assert r"properties[theirs\nFAKE]" in message
    assert "\n" not in message


async def test_hostile_names_are_carried_exactly() -> None:
    w = await world(
        permissions=grants(**{name: ["Produce"] for name in HOSTILE}),
        subscriptionPermissions=[{"subscription": name, "roles": [name]} for name in HOSTILE],
        properties={name: name for name in HOSTILE},
    )
    assert set(access(w)) == set(HOSTILE)
    assert access(w, "subscription_auth_roles") == {name: [name] for name in HOSTILE}
    assert of_users(w.pulsar.namespaces["t/n"]["properties"]) == {name: name for name in HOSTILE}
    assert await w.second_pass_writes() == ([], [])
    w.namespace()
    await w.run()
    assert (access(w), of_users(w.pulsar.namespaces["t/n"]["properties"])) == ({}, {})
    assert access(w, "subscription_auth_roles") == {}
    assert set(w.pulsar.namespaces) == {"t/n"}


@pytest.mark.parametrize("name", ["", ".", "..", "...", "a\nb", "a\x00", "r" * 65536])
def test_names_that_cannot_be_carried_do_not_parse(name: str) -> None:
    for spec in (
        {"permissions": [{"role": name, "actions": ["Produce"]}]},
        {"subscriptionPermissions": [{"subscription": name, "roles": ["r"]}]},
        {"subscriptionPermissions": [{"subscription": "s", "roles": [name]}]},
    ):
        with pytest.raises(ValidationError):
            PulsarNamespaceSpec.model_validate({"tenantRef": {"name": "t"}, **spec})


async def test_a_refused_entry_does_not_stop_the_others() -> None:
    w = LogicalWorld()
    w.tenant()
    w.pulsar.refuse["bad"] = "no such role"
    w.namespace(permissions=grants(bad=["Produce"], good=["Produce"]), properties={"a": "b"})
    await w.run()
    assert access(w) == {"good": ["produce"]}
    assert of_users(w.pulsar.namespaces["t/n"]["properties"]) == {"a": "b"}
    assert w.status(Kind.NAMESPACE, "n")["refusedFields"] == ["permissions[bad]"]
    assert w.status(Kind.NAMESPACE, "n")["managedFields"] == ["permissions[good]", "properties[a]"]
    status, reason, message = w.condition(Kind.NAMESPACE, "n", "Accepted")
    assert (status, reason) == ("False", "RejectedByPulsar")
    assert "spec.permissions[bad]" in message and "no such role" in message


@pytest.mark.parametrize("annotations", [PAUSED, DRY_RUN])
async def test_held_objects_change_no_entry(annotations: Json) -> None:
    w = await world(permissions=grants(app=["Produce"]))
    w.namespace(permissions=grants(ops=["Consume"]), annotations=annotations)
    await w.run()
    assert access(w) == {"app": ["produce"]}
    if annotations is DRY_RUN:
        assert w.status(Kind.NAMESPACE, "n")["pendingActions"] == [
            'Set spec.permissions[ops] to ["Consume"] (was not set)',
            'Remove spec.permissions[app] (was ["Produce"]), because the entry was removed from the spec',
        ]


# ------------------------------------------------------------------------------------------------------- topics


@pytest.mark.parametrize("partitions", [None, 2])
async def test_lists_of_a_topic(partitions: int | None) -> None:
    w = await world("a", "b")
    kind = {} if partitions is None else {"partitions": partitions}
    w.topic(permissions=grants(app=["Produce"]), properties={"k": "v", "gone": "1"}, **kind)
    await w.run()
    assert access(w, "destination_auth") == {X: {"app": ["produce"]}}
    properties = {c: of_users(p) for (c, name), p in w.pulsar.topic_properties.items() if name == X and p}
    both = {"k": "v", "gone": "1"}
    assert properties == ({"*": both} if partitions else {"a": both, "b": both})
    assert w.condition(Kind.TOPIC, "x")[0] == "True"
    assert await w.second_pass_writes() == ([], [])
    w.pulsar.namespaces["t/n"]["auth_policies"]["namespace_auth"]["wide"] = ["consume"]
    w.pulsar.topic_properties["*" if partitions else "b", X]["k"] = "other"
    await w.run()
    assert w.pulsar.topic_properties["*" if partitions else "b", X]["k"] == "v"
    assert "DriftRepaired" in w.reasons(Kind.TOPIC)
    w.topic(properties={"k": "v"}, prune={"permissions": True}, **kind)
    await w.run()
    assert access(w, "destination_auth") == {}
    assert access(w) == {"wide": ["consume"]}, "those of the namespace are not the topic's"
    properties = {c: of_users(p) for (c, name), p in w.pulsar.topic_properties.items() if name == X and p}
    assert properties == ({"*": {"k": "v"}} if partitions else {"a": {"k": "v"}, "b": {"k": "v"}})
    assert w.status(Kind.TOPIC, "x")["managedFields"] == sorted(
        ["properties[k]", *(["partitions"] if partitions else [])]
    )


async def test_a_topic_without_lists_costs_no_call_for_them() -> None:
    w = await world()
    w.topic()
    await w.run()
    start = len(w.admin.calls)
    await w.reconcile(Kind.TOPIC, "x")
    assert [c.path[-1] for c in w.admin.calls[start:]] == ["n", "partitions"]


async def test_a_silent_cluster_keeps_its_entries_in_mind() -> None:
    w = await world("a", "b")
    w.topic(properties={"k": "v"})
    await w.run()
    w.admin.down = {"b"}
    w.topic()
    await w.run()
    assert of_users(w.pulsar.topic_properties["b", X]) == {"k": "v"}
    assert w.status(Kind.TOPIC, "x")["managedFields"] == ["properties[k]"]
    w.admin.down = set()
    await w.run()
    assert of_users(w.pulsar.topic_properties["b", X]) == {}
    assert w.status(Kind.TOPIC, "x").get("managedFields", []) == []


async def test_a_lost_topic_comes_back_with_its_lists_and_without_drift() -> None:
    w = await world()
    w.topic(permissions=grants(app=["Produce"]), properties={"k": "v"})
    await w.run()
    w.pulsar._drop_topic(X)
    await w.run()
    assert access(w, "destination_auth") == {X: {"app": ["produce"]}}
    assert of_users(w.pulsar.topic_properties["a", X]) == {"k": "v"}
    assert "DriftRepaired" not in w.reasons(Kind.TOPIC)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_killed_at_every_write_of_a_list(when: str) -> None:
    """Grant and take back, with the process ended before or after each write, ends as without a kill."""

    async def change(w: LogicalWorld, kill_at: int | None) -> tuple[int, int]:
        """Writes and kills."""
        seen = kills = 0

        def kill(call: AdminCall) -> None:
            nonlocal seen
            if call.is_write:
                seen += 1
                if seen - 1 == kill_at:
                    raise Killed

        getattr(w.admin, when).append(kill)
        w.namespace(
            permissions=grants(app=["Consume"], new=["Produce"]),
            subscriptionPermissions=[{"subscription": "v", "roles": ["app", "new"]}],
            properties={"b": "2"},
        )
        for _ in range(3):
            try:
                await w.run()
                break
            except Killed:
                kills += 1
                w.restart()
        return seen, kills

    async def start() -> LogicalWorld:
        return await world(
            permissions=grants(app=["Produce"], old=["Produce"]),
            subscriptionPermissions=[{"subscription": "s", "roles": ["app", "old"]}],
            properties={"a": "1", "b": "1"},
        )

    plain = await start()
    writes, kills = await change(plain, None)
    assert writes >= 6 and not kills
    for index in range(writes):
        w = await start()
        _, kills = await change(w, index)
        assert kills == 1, f"not killed at write {index}"
        assert w.pulsar.snapshot() == plain.pulsar.snapshot(), f"killed {when} write {index}"
        assert w.status(Kind.NAMESPACE, "n")["managedFields"] == plain.status(Kind.NAMESPACE, "n")["managedFields"]


# ------------------------------------------------------------------------------------------------------- tenants


@pytest.mark.parametrize("policy", ["Repair", "Report"])
async def test_an_exact_list_of_admin_roles(policy: str) -> None:
    w = LogicalWorld()
    w.tenant(adminRoles=["a"], prune={"adminRoles": True}, driftPolicy=policy)
    await w.run()
    w.pulsar.tenants["t"]["adminRoles"] = ["a", "intruder"]
    await w.run()
    if policy == "Repair":
        assert w.pulsar.tenants["t"]["adminRoles"] == ["a"]
        assert "DriftRepaired" in w.reasons(Kind.TENANT)
        return
    assert w.pulsar.tenants["t"]["adminRoles"] == ["a", "intruder"]
    assert [each["field"] for each in w.status(Kind.TENANT, "t")["drift"]] == ["adminRoles[intruder]"]


async def test_admin_roles_of_others_stay_without_it() -> None:
    w = LogicalWorld()
    w.tenant(adminRoles=["a"])
    await w.run()
    w.pulsar.tenants["t"]["adminRoles"] = ["a", "other"]
    await w.run()
    assert w.pulsar.tenants["t"]["adminRoles"] == ["a", "other"]
    w.tenant(adminRoles=["a"], prune={"adminRoles": True})
    await w.run()
    assert w.pulsar.tenants["t"]["adminRoles"] == ["a"]
    assert "DriftRepaired" not in w.reasons(Kind.TENANT)


# --------------------------------------------------------------------------------------------------- all together


@pytest.mark.parametrize("partitions", [None, 2])
async def test_set_read_back_changed_by_others_repaired_taken_back(partitions: int | None) -> None:
    """The same scenario runs on a real Pulsar: tests/standalone/test_entries_real.py."""
    await Scenario(LogicalWorld("a"), "a", "http://a:8080", "t1", partitions=partitions).run()
