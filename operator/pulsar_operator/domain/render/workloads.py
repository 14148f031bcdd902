"""Builds the workload of a component from its user settings, and the manifests of a workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.base import Jvm, Resources
from pulsar_operator.api.v1alpha1.pods import PodTemplate
from pulsar_operator.domain.render.common import (
    ADDRESSES_FOLDER,
    ADDRESSES_VARIABLE,
    Manifest,
    Workload,
    conf_value,
    config_map,
    env_value,
    own_account,
    stateful_set,
)
from pulsar_operator.domain.render.config import layered
from pulsar_operator.domain.render.edge_tls import certificate_settings
from pulsar_operator.domain.render.inputs import ClusterInputs
from pulsar_operator.domain.render.presets import container_resources, jvm_arguments, preset_values
from pulsar_operator.domain.render.services import Exposed, client_service, disruption_budget, headless_service


class Settings(Protocol):
    """User settings for the pods of every component."""

    @property
    def jvm(self) -> Jvm | None:
        """Returns memory and options of the JVM."""

    @property
    def resources(self) -> Resources | None:
        """Returns requests and limits of the container."""

    @property
    def pod(self) -> PodTemplate | None:
        """Returns the settings of the pods."""


def component_workload(
    inputs: ClusterInputs,
    component: Component,
    settings: Settings,
    *layers: Mapping[str, str] | None,
    advertise: bool = True,
    env: Sequence[Manifest] = (),
    **more: Any,
) -> Workload:
    """Returns the workload of a component of a cluster.

    ``layers`` of configuration override the preset's; the last takes precedence, and the ports and the certificate are
    added. Unless ``advertise`` is false, each pod advertises its full name. ``more`` are other fields of Workload.
    """
    spec, listeners = inputs.spec, inputs.listeners(component)
    listening = listeners.settings | (certificate_settings() if listeners.tls else {})
    workload = Workload(
        listeners=listeners,
        platform=spec.platform,
        image=inputs.image(component),
        pull_policy=spec.image.pull_policy.value,
        pull_secrets=spec.image.pull_secrets,
        config=layered(preset_values(spec.preset).config.get(component), *layers, listening),
        jvm=jvm_arguments(component, spec.preset, settings.jvm),
        resources=container_resources(component, spec.preset, settings.jvm, settings.resources),
        **{"pod": settings.pod, **more},
    )
    # The broker's id, also in redirects and look-ups, the first id of a bookie and the name of an auditor.
    address = [conf_value("advertisedAddress", listeners.advertised_address)] if advertise else []
    if listeners.external:
        address.append(env_value(ADDRESSES_VARIABLE, f"{ADDRESSES_FOLDER}/$(POD_NAME)"))
    return replace(workload, env=[*address, *env])


def manifests(
    workload: Workload,
    *,
    exposed: Exposed | None = None,
    services: Sequence[Manifest] = (),
    evict_unhealthy: bool = True,
    usual_budget: bool = True,
) -> list[Manifest]:
    """Returns the manifests of a workload in the order of application: its own ServiceAccount, ConfigMap, Services,
    PodDisruptionBudget, StatefulSet.

    ``services`` are further ones. For the budget see disruption_budget.
    """
    settings = config_map(workload)
    return [
        *own_account(workload),
        settings,
        headless_service(workload),
        *([client_service(workload, exposed)] if workload.listeners.client_ports else []),
        *services,
        *disruption_budget(workload, evict_unhealthy=evict_unhealthy, usual=usual_budget),
        stateful_set(workload, settings["data"]),
    ]
