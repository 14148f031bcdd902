"""Pod templates that a real API server must refuse, and some close by that it must accept."""

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
        "value and valueFrom exclude each other",
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
