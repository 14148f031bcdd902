"""The certificate of a cluster's edge: the operator's copy of a Secret of the user, and how pods get it.

Pods mount the copy, which the operator writes only with contents that it has checked: a Secret of the user that becomes
bad or is deleted changes no file of a pod, and a pod that is created again still starts. Its name does not depend on
the Secret of the user, so a certificate that is renewed or replaced restarts no pod: Pulsar reads changed files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

CERTIFICATE: Final = "tls.crt"
"""Key of a Secret with the certificate, followed by its chain."""
KEY: Final = "tls.key"
"""Key of a Secret with the private key of the certificate."""
AUTHORITY: Final = "ca.crt"
"""Key of a Secret with the certificates of the authority; optional."""
CERTIFICATE_VOLUME, CERTIFICATE_FOLDER = "pulsar-operator-edge-tls", "/etc/pulsar-operator/edge-tls"
"""Volume with the certificate and its key, and its folder."""


def edge_secret_name(owner: str) -> str:
    """Returns the name of the operator's copy. ``owner`` is the PulsarCluster's metadata.name."""
    return f"{owner}-edge-tls"


def certificate_settings() -> dict[str, str]:
    """Returns the settings with which brokers and proxies find their certificate. They have no tlsTrustCertsFilePath:
    clients do not identify themselves by certificates."""
    return {
        "tlsCertificateFilePath": f"{CERTIFICATE_FOLDER}/{CERTIFICATE}",
        "tlsKeyFilePath": f"{CERTIFICATE_FOLDER}/{KEY}",
    }


def certificate_volumes(owner: str) -> list[dict[str, Any]]:
    """Returns the volume with the certificate and its key."""
    items = [{"key": key, "path": key} for key in (CERTIFICATE, KEY)]
    return [{"name": CERTIFICATE_VOLUME, "secret": {"secretName": edge_secret_name(owner), "items": items}}]


def certificate_mounts() -> list[dict[str, Any]]:
    """Returns the mount of that volume, in the main container alone."""
    return [{"name": CERTIFICATE_VOLUME, "mountPath": CERTIFICATE_FOLDER, "readOnly": True}]


def mounts_certificate(pod: Mapping[str, Any], owner: str) -> bool:
    """Whether a pod, or a pod template, mounts the operator's copy."""
    name = edge_secret_name(owner)
    return any((each.get("secret") or {}).get("secretName") == name for each in pod["spec"].get("volumes") or ())
