"""Authentication and authorization of an instance: who its clients are, and what they may do."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from pulsar_operator.api.v1alpha1.base import ApiModel

AUDIENCE = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$"
ROLE = r"^[^,\s=\\]+$"
"""A role that can be in a comma-separated list of a properties file."""


class TokenDiscovery(StrEnum):
    """How brokers find the keys with which the API server signs tokens of ServiceAccounts."""

    PUBLIC_KEYS = "PublicKeys"
    TRUSTED_ISSUER = "TrustedIssuer"


class ServiceAccountTokens(ApiModel):
    """Tokens of Kubernetes ServiceAccounts as credentials. The role of a client is
    system:serviceaccount:<namespace>:<name>, and the kubelet renews the token in the client's pod."""

    additional_audiences: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=253, pattern=AUDIENCE)]],
        Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = Field(default_factory=list)
    """Audiences that a client's token may have instead of pulsaroperator.io/<namespace>/<name> of the PulsarInstance. A
    token for any other audience is refused. Do not give two instances the same audience, because each could
    then use the tokens of its clients at the other instance. If empty, no additional audience is accepted."""
    discovery: TokenDiscovery = TokenDiscovery.PUBLIC_KEYS
    """How brokers find the keys that verify tokens. With PublicKeys, brokers read the keys from the Kubernetes
    API server. With TrustedIssuer, brokers read the keys from the issuer that the API server names, as on Amazon
    EKS."""


class Authentication(ApiModel):
    """How clients of all clusters of the instance prove who they are."""

    service_account_tokens: ServiceAccountTokens
    """Accepts tokens of Kubernetes ServiceAccounts, which are also the credentials of the brokers, the proxies and the
    operator."""


class Authorization(ApiModel):
    """What clients may do. A role without a permission may do nothing."""

    super_user_roles: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=512, pattern=ROLE)]],
        Field(max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = Field(default_factory=list)
    """Roles that may do everything in all clusters of the instance, in addition to the brokers, the proxies and the
    operator. If empty, no other role has all permissions."""
