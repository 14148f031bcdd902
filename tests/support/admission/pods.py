"""Pod templates, Services and platforms that a real API server must refuse, and some close by that it must accept."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

KEY: Json = {"name": "s", "key": "k"}
SOURCES = "exactly one of secret, configMap, emptyDir, projected, csi, persistentVolumeClaim must be set"


def _env(**entry: Any) -> Json:
    return {"env": [{"name": "A", **entry}]}


def _volume(**source: Any) -> Json:
    return {"volumes": [{"name": "x", **source}]}


def _mount(path: str, **more: Any) -> Json:
    return {"volumes": [{"name": "x", "emptyDir": {}}], "volumeMounts": [{"name": "x", "mountPath": path, **more}]}


POD_PATCHES: dict[str, tuple[Json, str | None]] = {
    "env-secret": (_env(valueFrom={"secretKeyRef": KEY}), None),
    "env-value-and-source": (
        _env(value="x", valueFrom={"secretKeyRef": KEY}),
        "value and valueFrom must not both be set",
    ),
    "env-two-sources": (
        _env(valueFrom={"secretKeyRef": KEY, "configMapKeyRef": KEY}),
        "exactly one of secretKeyRef, configMapKeyRef, fieldRef must be set in valueFrom",
    ),
    "env-no-source": (_env(valueFrom={}), "exactly one of secretKeyRef, configMapKeyRef, fieldRef"),
    "env-secret-value": (_env(valueFrom={"secretKeyRef": {"name": "s", "key": "k", "value": "x"}}), "unknown field"),
    "envFrom": ({"envFrom": [{"secretRef": {"name": "s"}}, {"configMapRef": {"name": "c"}}]}, None),
    "envFrom-two": (
        {"envFrom": [{"secretRef": {"name": "s"}, "configMapRef": {"name": "c"}}]},
        "exactly one of secretRef, configMapRef must be set in envFrom",
    ),
    "volume-claim": (_volume(persistentVolumeClaim={"claimName": "c"}), None),
    "volume-projected": (_volume(projected={"sources": [{"serviceAccountToken": {"path": "t"}}]}), None),
    "volume-hostPath": (_volume(hostPath={"path": "/"}), "unknown field"),
    "volume-without-source": (_volume(), SOURCES),
    "volume-two-sources": (_volume(emptyDir={}, secret={"secretName": "s"}), SOURCES),
    "volume-twice": ({"volumes": [{"name": "x", "emptyDir": {}}] * 2}, "Duplicate value"),
    "sidecar": ({"sidecars": [{"name": "x", "image": "i", "args": ["a"]}]}, None),
    "sidecar-without-image": ({"sidecars": [{"name": "x"}]}, "image: Required value"),
    "sidecar-twice": ({"sidecars": [{"name": "x", "image": "i"}] * 2}, "Duplicate value"),
    "mount": (_mount("/mnt/x", subPath="a/b"), None),
    "mount-relative": (_mount("mnt/x"), "should match"),
    "mount-root": (_mount("/"), "should be at least 2 chars long"),
    "mount-subpath-absolute": (_mount("/mnt/x", subPath="/etc"), "should match"),
}
"""Name -> spec.broker.pod and a fragment of the refusal; None = accepted."""

ONE_CLASS = {"type": "LoadBalancer", "loadBalancerClass": "example.com/one"}
CLASS_RULE = "service.loadBalancerClass is immutable while type is LoadBalancer"
SERVICES: dict[str, tuple[Json, str | None]] = {
    "class": (ONE_CLASS, None),
    "class-of-none": ({"loadBalancerClass": "example.com/one"}, "require type LoadBalancer"),
    "ranges": ({"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.0/8", "2001:db8::/32"]}, None),
    "ranges-of-node-port": (
        {"type": "NodePort", "loadBalancerSourceRanges": ["10.0.0.0/8"]},
        "require type LoadBalancer",
    ),
    "ranges-without-mask": ({"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.0"]}, "should match"),
    "local": ({"type": "NodePort", "externalTrafficPolicy": "Local"}, None),
    "local-inside": ({"externalTrafficPolicy": "Local"}, "requires type NodePort or LoadBalancer"),
}
"""Name -> spec.proxy.service and a fragment of the refusal; None = accepted."""
SERVICE_CHANGES: dict[str, tuple[Json, Json, str | None]] = {
    "class-changed": (ONE_CLASS, {"loadBalancerClass": "example.com/other"}, CLASS_RULE),
    "class-added": ({"type": "LoadBalancer"}, ONE_CLASS, CLASS_RULE),
    "class-kept": (ONE_CLASS, {"externalTrafficPolicy": "Local"}, None),
    "class-with-type": ({}, ONE_CLASS, None),
}
"""Name -> spec.proxy.service before, a merge patch of it, and a fragment of the refusal."""
INSIDE = {"type": "ClusterIP", "port": 6660}
LISTENER_FIELDS: dict[str, tuple[Json, str | None]] = {
    "node-port": ({"type": "NodePort", "host": "nodes.example.com"}, None),
    "node-port-address": ({"type": "NodePort", "host": "[2001:db8::1]"}, None),
    "node-port-without-host": ({"type": "NodePort"}, "host is required with type NodePort"),
    "host-of-balancer": (
        {"type": "LoadBalancer", "host": "a"},
        "host is required with type NodePort and must not be set",
    ),
    "host-with-port": ({"type": "NodePort", "host": "a.example.com:1"}, "should match"),
    "host-with-underscore": ({"type": "NodePort", "host": "a_b"}, "should match"),
    "balancer": ({"type": "LoadBalancer", "loadBalancerClass": "a/b", "externalTrafficPolicy": "Local"}, None),
    "class-of-node-port": ({"type": "NodePort", "host": "a", "loadBalancerClass": "a/b"}, "require type LoadBalancer"),
    "local-node-port": (
        {"type": "NodePort", "host": "a", "externalTrafficPolicy": "Local"},
        "require type LoadBalancer",
    ),
    "inside": ({"type": "ClusterIP"}, None),
    "template": ({"type": "Given", "addressTemplate": "b{ordinal}.example.com:6650"}, None),
    "template-without-ordinal": ({"type": "Given", "addressTemplate": "b.example.com:6650"}, "should match"),
    "template-without-port": ({"type": "Given", "addressTemplate": "b{ordinal}.example.com"}, "should match"),
    "template-of-node-port": (
        {"type": "NodePort", "host": "a", "addressTemplate": "b{ordinal}:1"},
        "Type Given in spec.listeners[] requires exactly one of addresses and addressTemplate",
    ),
    "given-nothing": (
        {"type": "Given"},
        "Type Given in spec.listeners[] requires exactly one of addresses and addressTemplate",
    ),
    "given-both": (
        {"type": "Given", "addresses": ["a:1", "b:1"], "addressTemplate": "b{ordinal}:1"},
        "Type Given in spec.listeners[] requires exactly one of addresses and addressTemplate",
    ),
    "list": ({"type": "Given", "addresses": ["a:1", "b:1", "[::1]:1"]}, None),
    "list-too-short": (
        {"type": "Given", "addresses": ["a:1"]},
        "has fewer addresses than the cluster may have brokers",
    ),
    "list-twice": ({"type": "Given", "addresses": ["a:1", "a:1"]}, "Duplicate value"),
    "name-internal": ({"type": "ClusterIP", "name": "internal"}, "name must not be one of internal"),
    "name-hyphen": ({"type": "ClusterIP", "name": "a-b"}, "should match"),
    "name-long": ({"type": "ClusterIP", "name": "abcdefghijk"}, "Too long"),
    "port-taken": ({"type": "ClusterIP", "port": 6650}, "port must not be one of 6650"),
    "port-low": ({"type": "ClusterIP", "port": 80}, "greater than or equal to 1024"),
    "type-of-strimzi": ({"type": "nodeport"}, "Unsupported value"),
}
"""Name -> fields of the one listener in spec.listeners and a fragment of the refusal; None = accepted."""
LISTENER_LISTS: dict[str, tuple[Json, str | None]] = {
    "two": ({"listeners": [{"name": "a", **INSIDE}, {"name": "b", **INSIDE, "port": 6661}]}, None),
    "two-of-one-port": (
        {"listeners": [{"name": "a", **INSIDE}, {"name": "b", **INSIDE}]},
        "two listeners with the same port",
    ),
    "two-of-one-name": ({"listeners": [{"name": "a", **INSIDE}, {"name": "a", **INSIDE}]}, "Duplicate value"),
    "none": ({"listeners": []}, "at least 1 items"),
    "list-for-autoscaling": (
        {
            "listeners": [{"name": "a", "type": "Given", "port": 6660, "addresses": ["a:1", "b:1"]}],
            "broker": {"autoscaling": {"minReplicas": 2, "maxReplicas": 3}},
        },
        "has fewer addresses than the cluster may have brokers",
    ),
}
"""Name -> a merge patch of the specification and a fragment of the refusal; None = accepted."""
BOTH: Json = {"tls": {"edge": {"mode": "PlainAndTLS", "secretName": "edge"}}}
ONLY_TLS: Json = {"tls": {"edge": {"mode": "Required", "secretName": "edge"}}}
NO_TLS: Json = {"tls": {"edge": {"mode": "Plain", "secretName": "edge"}}}
OF_TLS: Json = {"listeners": [{"name": "a", **INSIDE, "tls": True}]}
EDGES: dict[str, tuple[Json, str | None]] = {
    "plain": (NO_TLS, None),
    "both": (BOTH, None),
    "required": (ONLY_TLS, None),
    "host": ({"tls": {"edge": {**ONLY_TLS["tls"]["edge"], "host": "pulsar.example.com"}}}, None),
    "host-with-port": ({"tls": {"edge": {**ONLY_TLS["tls"]["edge"], "host": "a.example.com:1"}}}, "should match"),
    "empty": ({"tls": {}}, None),
    "without-secret": ({"tls": {"edge": {"mode": "Required"}}}, "secretName: Required value"),
    "without-mode": ({"tls": {"edge": {"secretName": "edge"}}}, "mode: Required value"),
    "mode-of-another-name": ({"tls": {"edge": {"mode": "TLS", "secretName": "edge"}}}, "Unsupported value"),
    "secret-elsewhere": ({"tls": {"edge": {"mode": "Plain", "secretName": "other/edge"}}}, "should match"),
    "listener": ({**NO_TLS, **OF_TLS}, None),
    "listener-required": ({**ONLY_TLS, **OF_TLS}, None),
    "listener-alone": (OF_TLS, "spec.listeners[].tls requires spec.tls.edge"),
    "listener-empty": ({"tls": {}, **OF_TLS}, "spec.listeners[].tls requires spec.tls.edge"),
    "plain-listener": ({**BOTH, "listeners": [{"name": "a", **INSIDE}]}, None),
    "plain-listener-required": (
        {**ONLY_TLS, "listeners": [{"name": "a", **INSIDE}]},
        "spec.tls.edge.mode Required requires tls: true in every entry of spec.listeners",
    ),
}
"""Name -> a merge patch of the specification and a fragment of the refusal; None = accepted."""
_STEP = "spec.tls.edge.mode must not change between Plain and Required in one step"
EDGE_CHANGES: dict[str, tuple[Json, Json, str | None]] = {
    "added": ({}, BOTH, None),
    "added-required": ({}, ONLY_TLS, _STEP),
    "plain-required": (NO_TLS, ONLY_TLS, _STEP),
    "both-required": (BOTH, ONLY_TLS, None),
    "required-both": (ONLY_TLS, BOTH, None),
    "required-plain": (ONLY_TLS, NO_TLS, _STEP),
    "required-removed": (ONLY_TLS, {"tls": None}, _STEP),
    "required-emptied": (ONLY_TLS, {"tls": {"edge": None}}, _STEP),
    "both-removed": (BOTH, {"tls": None}, None),
    "another-secret": (ONLY_TLS, {"tls": {"edge": {"secretName": "other"}}}, None),
    "listener-with": (
        {**BOTH, "listeners": [{"name": "a", **INSIDE}]},
        OF_TLS,
        "spec.listeners[].type, port and tls are immutable",
    ),
    "listener-without": (
        {**BOTH, **OF_TLS},
        {"listeners": [{"name": "a", **INSIDE}]},
        "type, port and tls are immutable",
    ),
    "listener-port": (
        {"listeners": [{"name": "a", **INSIDE}]},
        {"listeners": [{"name": "a", **INSIDE, "port": 6662}]},
        "type, port and tls are immutable",
    ),
    "listener-beside": (
        {**BOTH, "listeners": [{"name": "b", **INSIDE, "port": 6661}]},
        {"listeners": [{"name": "b", **INSIDE, "port": 6661}, {"name": "a", **INSIDE, "tls": True}]},
        None,
    ),
}
"""Name -> a merge patch before, one after, and a fragment of the refusal."""
DUAL = {"ipFamilyPolicy": "RequireDualStack"}
PLATFORMS: dict[str, tuple[Json, str | None]] = {
    "openshift": ({"podSecurity": "Platform"}, None),
    "dual": ({**DUAL, "ipFamilies": ["IPv6", "IPv4"]}, None),
    "dual-of-one": ({**DUAL, "ipFamilies": ["IPv6"]}, "two entries with ipFamilyPolicy RequireDualStack"),
    "single": ({"ipFamilies": ["IPv6"]}, None),
    "single-of-two": ({"ipFamilies": ["IPv6", "IPv4"]}, "two entries with ipFamilyPolicy RequireDualStack"),
    "prefer": ({"ipFamilyPolicy": "PreferDualStack"}, None),
    "prefer-one": (
        {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6"]},
        "must not be set with ipFamilyPolicy",
    ),
}
"""Name -> spec.platform and a fragment of the refusal; None = accepted."""
PLATFORM_CHANGES: dict[str, tuple[Json, Json, str | None]] = {
    "other-first": (
        {"ipFamilies": ["IPv4"]},
        {"ipFamilies": ["IPv6"]},
        "The first entry of platform.ipFamilies is immutable",
    ),
    "second-added": ({"ipFamilies": ["IPv4"]}, {**DUAL, "ipFamilies": ["IPv4", "IPv6"]}, None),
}
"""Name -> spec.platform before, a merge patch of it, and a fragment of the refusal."""
