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
