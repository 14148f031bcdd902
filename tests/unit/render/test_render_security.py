"""Authentication and authorization: what brokers, proxies and a standalone pod get, and what stays as it is without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.security import Authorization, ServiceAccountTokens, TokenDiscovery
from pulsar_operator.domain.render import RenderedCluster, Security, check_config, render_cluster, security_of
from tests.support.cluster.rendering import container, distributed, inputs, of_kind, overrides, standalone

OPERATOR = "system:serviceaccount:pulsar-operator:pulsar-operator"
AUDIENCE = "pulsaroperator.io/ns/prod"
SECURE = Security(AUDIENCE, super_user_roles=(OPERATOR, "system:serviceaccount:ns:admin"))


def secured(security: Security | None = SECURE, **changes: Any) -> RenderedCluster:
    return render_cluster(replace(inputs(distributed(**changes)), security=security))


def volumes(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    spec = of_kind(manifests, "StatefulSet")["spec"]["template"]["spec"]
    return {volume["name"]: volume for volume in spec["volumes"]}


def test_without_it_nothing_is_different() -> None:
    """That this is what former versions rendered, test_render_unchanged says."""
    plain = secured(None)
    assert plain == render_cluster(inputs(distributed()))
    for component in (Component.BROKER, Component.PROXY):
        text = str(plain.of(component))
        assert not any(word in text for word in ("serviceAccountToken", "openID", "authenticationEnabled"))
    assert plain.endpoints.token_audience is None


def test_what_brokers_verify_and_who_may_do_everything() -> None:
    settings = overrides(secured().of(Component.BROKER))
    expected = {
        "authenticationEnabled": "true",
        "authenticationProviders": "org.apache.pulsar.broker.authentication.oidc.AuthenticationProviderOpenID",
        "openIDAllowedAudiences": AUDIENCE,
        "openIDFallbackDiscoveryMode": "KUBERNETES_DISCOVER_PUBLIC_KEYS",
        "openIDAcceptedTimeLeewaySeconds": "120",
        "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
        "brokerClientAuthenticationParameters": "file:///var/run/secrets/pulsar/token",
        "authenticateOriginalAuthData": "true",
        "authorizationEnabled": "true",
        "proxyRoles": "system:serviceaccount:ns:my-proxy",
        "superUserRoles": ",".join(
            sorted(
                [
                    "system:serviceaccount:ns:admin",
                    "system:serviceaccount:ns:my-broker",
                    "system:serviceaccount:ns:my-proxy",
                    OPERATOR,
                ]
            )
        ),
        "statusFilePath": "/pulsar/conf-rendered/broker.conf",
    }
    assert {name: settings.get(name) for name in expected} == expected


def test_what_proxies_verify_and_pass_on() -> None:
    settings = overrides(secured().of(Component.PROXY))
    assert settings["authenticationEnabled"] == settings["forwardAuthorizationCredentials"] == "true"
    assert settings["brokerClientAuthenticationParameters"] == "file:///var/run/secrets/pulsar/token"
    assert settings["authenticateMetricsEndpoint"] == "false"
    assert "superUserRoles" not in settings and "authorizationEnabled" not in settings, "brokers authorize"


def test_authentication_alone_restricts_no_role() -> None:
    settings = overrides(secured(Security(AUDIENCE)).of(Component.BROKER))
    assert settings["authenticationEnabled"] == "true"
    assert "authorizationEnabled" not in settings and "superUserRoles" not in settings


@pytest.mark.parametrize("component", [Component.BROKER, Component.PROXY])
def test_pods_have_a_token_for_pulsar_and_what_finds_the_keys(component: Component) -> None:
    manifests = secured().of(component)
    found, pod = volumes(manifests), of_kind(manifests, "StatefulSet")["spec"]["template"]["spec"]
    (own,) = found["pulsar-operator-token"]["projected"]["sources"]
    assert own == {"serviceAccountToken": {"audience": AUDIENCE, "expirationSeconds": 3600, "path": "token"}}
    api = found["pulsar-operator-api"]["projected"]["sources"]
    assert {"expirationSeconds": 3600, "path": "token"} in [each.get("serviceAccountToken") for each in api]
    mounts = {mount["name"]: mount for mount in container(manifests)["volumeMounts"]}
    assert mounts["pulsar-operator-token"]["mountPath"] == "/var/run/secrets/pulsar"
    assert mounts["pulsar-operator-api"]["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    assert pod["automountServiceAccountToken"] is False
    account = of_kind(manifests, "ServiceAccount")
    assert account["metadata"]["name"] == pod["serviceAccountName"] == f"my-{component.value}"
    assert account["automountServiceAccountToken"] is False


@pytest.mark.parametrize("component", [Component.ZOOKEEPER, Component.BOOKIE, Component.AUTORECOVERY])
def test_other_pods_have_none(component: Component) -> None:
    assert secured().of(component) == secured(None).of(component)


def test_the_kubelet_needs_no_token() -> None:
    probes = container(secured().of(Component.BROKER))
    assert {probes[each]["httpGet"]["path"] for each in ("startupProbe", "readinessProbe")} == {"/status.html"}
    assert "tcpSocket" in probes["livenessProbe"]
    assert "brokers/ready" in str(container(secured(None).of(Component.BROKER))["readinessProbe"])


def test_a_sidecar_gets_no_token() -> None:
    sidecar = {"name": "log", "image": "log:1"}
    (spec,) = [
        each["spec"]["template"]["spec"]
        for each in secured(broker={"replicas": 1, "pod": {"sidecars": [sidecar]}}).of(Component.BROKER)
        if each["kind"] == "StatefulSet"
    ]
    other = next(each for each in spec["containers"] if each["name"] == "log")
    assert "pulsar-operator" not in str(other.get("volumeMounts"))


def test_a_standalone_pod_is_its_own_broker() -> None:
    rendered = render_cluster(replace(inputs(standalone()), security=SECURE))
    settings = overrides(rendered.of(Component.STANDALONE))
    assert "system:serviceaccount:ns:my-standalone" in settings["superUserRoles"].split(",")
    assert "proxyRoles" not in settings and settings["statusFilePath"] == "/pulsar/conf-rendered/standalone.conf"
    assert "pulsar-operator-token" in volumes(rendered.of(Component.STANDALONE))
    assert rendered.endpoints.token_audience == AUDIENCE


def test_the_audience_is_the_instances_own_and_others_are_beside_it() -> None:
    tokens = ServiceAccountTokens(additional_audiences=["pulsar"], discovery=TokenDiscovery.TRUSTED_ISSUER)
    found = security_of(tokens, None, namespace="ns", name="prod", operator=OPERATOR)
    assert found == Security(AUDIENCE, TokenDiscovery.TRUSTED_ISSUER, ("pulsar",))
    settings = overrides(secured(found).of(Component.BROKER))
    assert settings["openIDAllowedAudiences"] == f"{AUDIENCE},pulsar"
    assert settings["openIDFallbackDiscoveryMode"] == "KUBERNETES_DISCOVER_TRUSTED_ISSUER"
    (own,) = volumes(secured(found).of(Component.BROKER))["pulsar-operator-token"]["projected"]["sources"]
    assert own["serviceAccountToken"]["audience"] == AUDIENCE, "what a specification chooses might be somebody else's"


def test_two_instances_never_share_an_audience() -> None:
    places = [("a", "b"), ("a", "c"), ("c", "b"), ("a-b", "c"), ("a", "b-c")]
    found = {
        security_of(ServiceAccountTokens(), None, namespace=namespace, name=name, operator="").audience
        for namespace, name in places
    }
    assert len(found) == len(places)


def test_an_operator_without_a_role_is_not_listed() -> None:
    authorization = Authorization(super_user_roles=["ops"])
    found = security_of(ServiceAccountTokens(), authorization, namespace="ns", name="prod", operator="")
    assert found.super_user_roles == ("ops",)


@pytest.mark.parametrize("prefix", ["", "PULSAR_PREFIX_"])
@pytest.mark.parametrize(
    "key",
    [
        "authenticationEnabled",
        "superUserRoles",
        "anonymousUserRole",
        "authenticateOriginalAuthData",
        "openIDAllowedAudiences",
        "openIDAllowedTokenIssuers",
        "openIDAcceptedTimeLeewaySeconds",
        "openIDRequireIssuersUseHttps",
        "brokerClientAuthenticationParameters",
        "brokerClient_authPluginClassName",
        "brokerClient_authParams",
        "brokerClient_authParamMap",
        "brokerClient_tlsAllowInsecureConnection",
        "brokerClient_useTls",
        "brokerClient_serviceUrl",
        "bookkeeper_tlsProvider",
        "bookkeeper_clientAuthProviderFactoryClass",
    ],
)
@pytest.mark.parametrize("component", [Component.BROKER, Component.PROXY, Component.STANDALONE])
def test_pass_through_prefixes_override_nothing(component: Component, key: str, prefix: str) -> None:
    (problem,) = check_config(component, {f"{prefix}{key}": "x"})
    assert f'"{prefix}{key}" is reserved' in problem


def test_other_settings_of_inner_clients_may_be_set() -> None:
    assert check_config(Component.BROKER, {"brokerClient_memoryLimitBytes": "1", "bookkeeper_readTimeout": "5"}) == []
