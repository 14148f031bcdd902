"""Conditions and status of TLS at the edge. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from pulsar_operator.api.constants import Component, ConditionType, Reason
from pulsar_operator.api.v1alpha1.cluster import PulsarClusterSpec
from pulsar_operator.api.v1alpha1.cluster_status import MOST_NAMES, CertificateStatus
from pulsar_operator.api.v1alpha1.tls import EdgeMode
from pulsar_operator.domain.conditions import FALSE, UNKNOWN, ConditionSet, timestamp
from pulsar_operator.domain.dataplane.cluster.cluster_view import CertificateFact, ClusterView
from pulsar_operator.domain.dataplane.observed.edge_certificate import EdgeCertificate, certified
from pulsar_operator.domain.render.inputs import declared_edge

WARNED: Final = timedelta(days=14)
"""Time before the end of a certificate from which condition CertificatesValid is False."""
_ACCEPTED: Final = {
    EdgeMode.PLAIN: "connections without TLS only",
    EdgeMode.PLAIN_AND_TLS: "connections with TLS and without",
    EdgeMode.REQUIRED: "connections with TLS only",
}


def set_tls(conditions: ConditionSet, spec: PulsarClusterSpec, view: ClusterView) -> None:
    """Sets conditions TLSReady and CertificatesValid if a pod uses TLS by the specification."""
    kind, fact = ConditionType.TLS_READY, view.certificate
    if not certified(spec):
        return
    if fact is None or fact.certificate is None:
        for each in (kind, ConditionType.CERTIFICATES_VALID):
            if not conditions.carry(each):
                conditions.set(
                    each, UNKNOWN, Reason.UNKNOWN, view.error or "The operator has not checked the certificate yet"
                )
        return
    _set_valid(conditions, fact.certificate)
    certificate = fact.certificate
    if (problem := certificate.problem) is not None:
        conditions.set(kind, FALSE, problem.reason, f"{problem.message}. {_effect(certificate)}")
    elif certificate.blocker is not None:
        conditions.set(kind, FALSE, certificate.blocker.reason, certificate.blocker.message)
    elif (rolling := _rolling(spec, fact)) is not None:
        conditions.set(kind, FALSE, Reason.ROLLOUT_IN_PROGRESS, rolling)
    else:
        conditions.set(kind, True, Reason.READY, _accepted(spec, certificate))


def certificate_rows(fact: CertificateFact, before: list[CertificateStatus] | None) -> list[CertificateStatus] | None:
    """Returns status.certificates; None if no pod uses TLS. A row stays while its certificate is not known."""
    if fact.certificate is None or fact.certificate.used is None:
        return before if fact.kept else None
    used = fact.certificate.used
    names = [each[:253] for each in used.names[:MOST_NAMES]]
    return [CertificateStatus(secret=fact.certificate.secret, not_after=timestamp(used.not_after), names=names)]


def _effect(certificate: EdgeCertificate) -> str:
    if certificate.unfit is None:
        return "Pods keep the certificate that they have"
    if certificate.blocker is None:
        return "Pods keep the certificate that they have, and the operator adds no broker with TLS until it is good"
    return (
        "The operator does not create, add or change pods with TLS until the certificate is good. Pods that run keep "
        "what they have"
    )


def _rolling(spec: PulsarClusterSpec, fact: CertificateFact) -> str | None:
    """Returns what the change of the proxies waits for; None if they accept what the specification says."""
    declared, pods = declared_edge(spec), ", ".join(fact.lagging[:3])
    if fact.mode is not declared:
        step = f"Proxies accept {_ACCEPTED[fact.mode]} until every proxy is able to serve mode {declared.value}"
        return f"{step}. The operator replaces pods first: {pods}" if pods else f"{step}"
    return f"The operator replaces proxies that are not in mode {declared.value} yet: {pods}" if pods else None


def _accepted(spec: PulsarClusterSpec, certificate: EdgeCertificate) -> str:
    parts = [f"The proxies accept {_ACCEPTED[declared_edge(spec)]}"] if Component.PROXY in certified(spec) else []
    if names := [each.name for each in spec.listeners or () if each.tls]:
        parts.append(f"External listeners with TLS: {', '.join(names)}")
    parts.append(f"The certificate is from Secret {certificate.secret}")
    return ". ".join(parts)


def _set_valid(conditions: ConditionSet, certificate: EdgeCertificate) -> None:
    kind, used = ConditionType.CERTIFICATES_VALID, certificate.used
    if used is None:
        if certificate.problem is not None:
            conditions.set(kind, FALSE, certificate.problem.reason, certificate.problem.message)
        return
    end, secret = timestamp(used.not_after), certificate.secret
    if conditions.now >= used.not_after:
        text = f"The certificate of Secret {secret} that pods use expired at {end}. Renew the certificate"
        conditions.set(kind, FALSE, Reason.CERTIFICATE_INVALID, text)
    elif conditions.now >= used.not_after - WARNED:
        text = (
            f"The certificate of Secret {secret} that pods use expires at {end}. Renew the certificate, or find out "
            "why it was not renewed automatically"
        )
        conditions.set(kind, FALSE, Reason.CERTIFICATE_EXPIRING, text)
    else:
        conditions.set(kind, True, Reason.VALID, f"The certificate of Secret {secret} is valid until {end}")
