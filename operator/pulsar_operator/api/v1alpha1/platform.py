"""What the Kubernetes under a cluster is like: who chooses users of pods, and which IP versions there are."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from pulsar_operator.api.v1alpha1.base import ApiModel, validations


class PodSecurity(StrEnum):
    """Who assigns the user and the groups of pods."""

    FIXED = "Fixed"
    PLATFORM = "Platform"


class IpFamily(StrEnum):
    """An IP family."""

    IPV4 = "IPv4"
    IPV6 = "IPv6"


class IpFamilyPolicy(StrEnum):
    """Number of IP families of Services, as in a Service."""

    SINGLE_STACK = "SingleStack"
    PREFER_DUAL_STACK = "PreferDualStack"
    REQUIRE_DUAL_STACK = "RequireDualStack"


class Platform(ApiModel):
    """Settings that depend on the Kubernetes distribution."""

    model_config = ConfigDict(
        json_schema_extra=validations(
            (
                "!has(self.ipFamilies) || !has(self.ipFamilyPolicy) || self.ipFamilyPolicy != 'PreferDualStack'",
                "platform.ipFamilies must not be set with ipFamilyPolicy PreferDualStack, because Kubernetes "
                "then chooses the families",
            ),
            (
                "!has(self.ipFamilies) || self.ipFamilies.size() == "
                "(has(self.ipFamilyPolicy) && self.ipFamilyPolicy != 'SingleStack' ? 2 : 1)",
                "platform.ipFamilies must have two entries with ipFamilyPolicy RequireDualStack, and one otherwise",
            ),
            (
                "!has(self.ipFamilies) || !has(oldSelf.ipFamilies) || self.ipFamilies[0] == oldSelf.ipFamilies[0]",
                "The first entry of platform.ipFamilies is immutable, because existing Services keep their first "
                "family",
            ),
        )
    )

    pod_security: PodSecurity = PodSecurity.FIXED
    """User and groups of the pods. With Fixed, the pods run as user 10000, group 0 and file system group 10000. With
    Platform, the operator sets no user and no groups, and the platform assigns both, as OpenShift does for each
    Kubernetes namespace. The pods meet Pod Security Standard restricted in both cases."""
    ip_family_policy: IpFamilyPolicy | None = None
    """IP family policy of all Services. With two IP families, or with IPv6, Java uses both families. If unset,
    Kubernetes uses SingleStack."""
    ip_families: (
        Annotated[
            list[IpFamily],
            Field(min_length=1, max_length=2, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
        ]
        | None
    ) = None
    """IP families of all Services. The first one is the primary family, which is immutable once it is set. If unset,
    Kubernetes chooses the families."""

    @property
    def has_ipv6(self) -> bool:
        """Whether addresses of IP version 6 may be met."""
        dual = self.ip_family_policy not in (None, IpFamilyPolicy.SINGLE_STACK)
        return dual or IpFamily.IPV6 in (self.ip_families or ())
