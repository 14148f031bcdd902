"""Authentication and authorization of brokers and proxies: their settings, and the tokens that their pods get.

Brokers and proxies verify tokens of Kubernetes ServiceAccounts with Pulsar's OpenID provider, which asks the API server
for the keys. Their credential is a token of the component's ServiceAccount. The kubelet renews each token in its file,
and Pulsar's client reads the file at each use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.security import Authorization, ServiceAccountTokens, TokenDiscovery
from pulsar_operator.domain.render.child_names import Owner, workload_name

TOKEN_VOLUME, TOKEN_FOLDER = "pulsar-operator-token", "/var/run/secrets/pulsar"
API_VOLUME, API_FOLDER = "pulsar-operator-api", "/var/run/secrets/kubernetes.io/serviceaccount"
"""Volume with what a client of the API server finds in a pod (k8s.io/client-go, rest.InClusterConfig), here Pulsar's
OpenID provider."""
TOKEN_SECONDS = 3600
"""Lifetime of tokens in seconds. The kubelet renews one after 80 % of it."""
LEEWAY_SECONDS = 120
"""Seconds that brokers accept a token after its end: a proxy asks its client for a new one once a minute
(authenticationRefreshCheckSeconds), and passes the old one on until it has the new one."""
ROOT_CERTIFICATES = "kube-root-ca.crt"
"""ConfigMap with the certificates of the API server, which Kubernetes keeps in every namespace."""
VOLUMES = (TOKEN_VOLUME, API_VOLUME)
PROVIDER = "org.apache.pulsar.broker.authentication.oidc.AuthenticationProviderOpenID"
CLIENT_PLUGIN = "org.apache.pulsar.client.impl.auth.AuthenticationToken"
_DISCOVERY: Mapping[TokenDiscovery, str] = {
    TokenDiscovery.PUBLIC_KEYS: "KUBERNETES_DISCOVER_PUBLIC_KEYS",
    TokenDiscovery.TRUSTED_ISSUER: "KUBERNETES_DISCOVER_TRUSTED_ISSUER",
}


@dataclass(frozen=True)
class Security:
    """Who the clients of an instance are, and who may do everything."""

    audience: str
    """Audience of the instance. The operator sends its token for this one alone, which no other instance can have: with
    one that a specification chooses, its brokers could use the token at another instance, or at the API server."""
    discovery: TokenDiscovery = TokenDiscovery.PUBLIC_KEYS
    additional_audiences: tuple[str, ...] = ()
    """Further audiences that the tokens of clients may have."""
    super_user_roles: tuple[str, ...] | None = None
    """Roles of the user and of the operator; None if roles are not restricted."""


def security_of(
    tokens: ServiceAccountTokens, authorization: Authorization | None, *, namespace: str, name: str, operator: str
) -> Security:
    """Returns the security of a PulsarInstance. ``operator`` is the role of the operator, empty if it has none."""
    roles: tuple[str, ...] | None = None
    if authorization is not None:
        roles = tuple(dict.fromkeys([*([operator] if operator else []), *authorization.super_user_roles]))
    return Security(own_audience(namespace, name), tokens.discovery, tuple(tokens.additional_audiences), roles)


def own_audience(namespace: str, name: str) -> str:
    """Returns the audience of an instance. No two instances of a Kubernetes cluster have the same."""
    return f"pulsaroperator.io/{namespace}/{name}"


def account_role(namespace: str, account: str) -> str:
    """Returns the role of a ServiceAccount, which is the subject of its tokens."""
    return f"system:serviceaccount:{namespace}:{account}"


def component_role(owner: Owner, component: Component) -> str:
    """Returns the role of a component's pods."""
    return account_role(owner.namespace, workload_name(owner.name, component))


def _verifying(security: Security) -> dict[str, str]:
    """Returns the settings with which a server verifies tokens and sends its own one."""
    return {
        "authenticationEnabled": "true",
        "authenticationProviders": PROVIDER,
        "openIDAllowedAudiences": ",".join([security.audience, *security.additional_audiences]),
        "openIDFallbackDiscoveryMode": _DISCOVERY[security.discovery],
        "brokerClientAuthenticationPlugin": CLIENT_PLUGIN,
        "brokerClientAuthenticationParameters": f"file://{TOKEN_FOLDER}/token",
    }


def broker_security(security: Security | None, owner: Owner, component: Component = Component.BROKER) -> dict[str, str]:
    """Returns the settings of brokers, or of a standalone pod; empty without authentication.

    Brokers know the role of proxies before there are any: a proxy whose role they do not know is refused, and with it
    all its clients. The role has to be a superuser, since brokers authorize it beside that of each client.
    """
    if security is None:
        return {}
    settings = _verifying(security) | {
        "authenticateOriginalAuthData": "true",
        "openIDAcceptedTimeLeewaySeconds": str(LEEWAY_SECONDS),
    }
    proxies = [component_role(owner, Component.PROXY)] if component is Component.BROKER else []
    if proxies:
        settings["proxyRoles"] = ",".join(proxies)
    if security.super_user_roles is not None:
        roles = [*security.super_user_roles, component_role(owner, component), *proxies]
        settings |= {"authorizationEnabled": "true", "superUserRoles": ",".join(sorted(set(roles)))}
    return settings


def proxy_security(security: Security | None) -> dict[str, str]:
    """Returns the settings of proxies; empty without authentication. Brokers alone authorize. Metrics stay readable
    without a token, as those of brokers are."""
    if security is None:
        return {}
    return _verifying(security) | {"forwardAuthorizationCredentials": "true", "authenticateMetricsEndpoint": "false"}


def token_volumes(audience: str) -> list[dict[str, Any]]:
    """Returns the volumes with the token for Pulsar, and with what the OpenID provider needs to ask the API server."""
    api = [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": ROOT_CERTIFICATES, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    own = {"audience": audience, "expirationSeconds": TOKEN_SECONDS, "path": "token"}
    return [
        {"name": TOKEN_VOLUME, "projected": {"sources": [{"serviceAccountToken": own}]}},
        {"name": API_VOLUME, "projected": {"sources": api}},
    ]


def has_token(workload: Mapping[str, Any]) -> bool:
    """Whether the pods of a StatefulSet get a token for Pulsar."""
    return any(each.get("name") == TOKEN_VOLUME for each in workload["spec"]["template"]["spec"].get("volumes") or ())


def token_mounts() -> list[dict[str, Any]]:
    """Returns the mounts of those volumes, in the main container alone."""
    return [
        {"name": TOKEN_VOLUME, "mountPath": TOKEN_FOLDER, "readOnly": True},
        {"name": API_VOLUME, "mountPath": API_FOLDER, "readOnly": True},
    ]
