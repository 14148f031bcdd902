"""What the Kubernetes under a cluster is like: who chooses users of pods, and which IP versions there are."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import ApiModel, validations


class PodSecurity(StrEnum):
    """Who chooses user and groups of pods."""

    FIXED = "Fixed"
    PLATFORM = "Platform"


class IpFamily(StrEnum):
    """A version of IP."""

    IPV4 = "IPv4"
    IPV6 = "IPv6"


class IpFamilyPolicy(StrEnum):
    """How many versions of IP Services have; as in a Service."""

    SINGLE_STACK = "SingleStack"
    PREFER_DUAL_STACK = "PreferDualStack"
    REQUIRE_DUAL_STACK = "RequireDualStack"


class Platform(ApiModel):
    """What the Kubernetes is like that pods run in."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "!has(self.ipFamilies) || !has(self.ipFamilyPolicy) || self.ipFamilyPolicy != 'PreferDualStack'",
                "platform.ipFamilies must be absent with ipFamilyPolicy PreferDualStack, by which Kubernetes chooses",
            ),
            (
                "!has(self.ipFamilies) || self.ipFamilies.size() == "
                "(has(self.ipFamilyPolicy) && self.ipFamilyPolicy != 'SingleStack' ? 2 : 1)",
                "platform.ipFamilies must have two entries with ipFamilyPolicy RequireDualStack, and one otherwise",
            ),
            (
                "!has(self.ipFamilies) || !has(oldSelf.ipFamilies) || self.ipFamilies[0] == oldSelf.ipFamilies[0]",
                "the first of platform.ipFamilies is immutable: Services keep the one they have",
            ),
        )
    )

    pod_security: PodSecurity = PodSecurity.FIXED
    """Fixed: pods run as user 10000, group 0 and file system group 10000. Platform: these are left out, for OpenShift,
    which gives each Kubernetes namespace its own. Pods are restricted either way."""
    ip_family_policy: IpFamilyPolicy | None = None
    """How many IP versions all Services have; absent = SingleStack. With two, or with IPv6, Java uses both."""
    ip_families: (
        Annotated[
            list[IpFamily],
            Field(min_length=1, max_length=2, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
        ]
        | None
    ) = None
    """IP versions of all Services, the first of them first; absent = Kubernetes' default."""

    @property
    def has_ipv6(self) -> bool:
        """Whether addresses of IP version 6 may be met."""
        dual = self.ip_family_policy not in (None, IpFamilyPolicy.SINGLE_STACK)
        return dual or IpFamily.IPV6 in (self.ip_families or ())
