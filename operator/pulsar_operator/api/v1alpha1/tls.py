"""TLS of a cluster, by certificates from Secrets of the user."""

from __future__ import annotations

from enum import StrEnum

from pulsar_operator.api.v1alpha1.base import ApiModel, ObjectName
from pulsar_operator.api.v1alpha1.listeners import Host


class EdgeMode(StrEnum):
    """Which connections proxies accept."""

    PLAIN = "Plain"
    PLAIN_AND_TLS = "PlainAndTLS"
    REQUIRED = "Required"


def _mode(of: str) -> str:
    return f"(has({of}.tls) && has({of}.tls.edge) && has({of}.tls.edge.mode) ? {of}.tls.edge.mode : 'Plain')"


TLS_RULES = (
    (
        "!has(self.tls) || self.mode != 'Standalone'",
        "spec.tls is allowed only in mode Distributed. Remove spec.tls",
    ),
    (
        f"{_mode('self')} == {_mode('oldSelf')} || 'PlainAndTLS' in [{_mode('self')}, {_mode('oldSelf')}]",
        "spec.tls.edge.mode must not change between Plain and Required in one step, because clients without TLS, or "
        "with it, would lose their connections. Set it to PlainAndTLS first, and wait until condition TLSReady is "
        "True. Without spec.tls.edge, the mode is Plain",
    ),
    (
        "!has(self.listeners) || (has(self.tls) && has(self.tls.edge)) || "
        "!self.listeners.exists(l, has(l.tls) && l.tls)",
        "spec.listeners[].tls requires spec.tls.edge, whose Secret has the certificate. Set spec.tls.edge, or remove "
        "the listener",
    ),
    (
        f"!has(self.listeners) || {_mode('self')} != 'Required' || self.listeners.all(l, has(l.tls) && l.tls)",
        "spec.tls.edge.mode Required requires tls: true in every entry of spec.listeners. Remove the listeners without "
        "TLS, or set the mode to PlainAndTLS",
    ),
)
"""CEL rules of the cluster's specification."""


class EdgeTls(ApiModel):
    """TLS between clients and the cluster: at the proxies, and at external listeners with tls."""

    mode: EdgeMode
    """Which connections proxies accept. Plain accepts connections without TLS only, PlainAndTLS accepts both, and
    Required accepts connections with TLS only. The mode may change by one step at a time, in both directions."""
    secret_name: ObjectName
    """Secret of type kubernetes.io/tls in the Kubernetes namespace of the cluster, as cert-manager writes it: tls.crt
    has the certificate with its chain, tls.key has its private key as PKCS#8, and ca.crt may have the certificates of
    the authority. The operator checks the Secret and copies it into another Secret, which the pods mount."""
    host: Host | None = None
    """Host name or address by which clients reach the proxies with TLS, such as the name of their load balancer. The
    certificate must be valid for it, and status.endpoints has it in the URLs with TLS. If unset, the host name of the
    proxies' Service is used."""


class Tls(ApiModel):
    """TLS of the cluster."""

    edge: EdgeTls | None = None
    """TLS between clients and the cluster, which proxies and external listeners serve. If unset, they serve connections
    without TLS only."""
