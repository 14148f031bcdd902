"""The record of the Pulsar versions that may have written the volumes, in the record of the instance id, which outlives
the PulsarCluster.

A version is added before any pod gets it, and is the only one left once every pod runs it and is ready.
"""

from __future__ import annotations

from dataclasses import replace

from pulsar_operator.controllers.dataplane.objects.instance_id_record import record_manifest
from pulsar_operator.controllers.dataplane.observed.phase import PhaseContext
from pulsar_operator.domain.dataplane.registration.metadata import versions_text
from pulsar_operator.domain.render.child_names import labels


async def remember(ctx: PhaseContext) -> None:
    """Writes the record if it changed. A cluster without a record gets one later, with its version in it. Raises
    PortError."""
    facts, actor, record = ctx.facts, ctx.actor, ctx.facts.record
    if record is None or facts.config_map is None or facts.running is None:
        return
    desired = frozenset({facts.spec.version})
    if not (facts.running == desired and _everywhere(ctx)):
        desired |= facts.running | record.versions
    if desired == record.versions:
        return
    meta = facts.meta
    manifest = record_manifest(meta.name, meta.namespace, labels(facts.owner, None), replace(record, versions=desired))
    text = f"ConfigMap {manifest['metadata']['name']}, because the volumes are used by Pulsar {versions_text(desired)}"
    if not actor.act:
        actor.pending.append(f"Update {text}")
        return
    # The one that was read, and no other of its name.
    manifest["metadata"]["uid"] = facts.config_map["metadata"]["uid"]
    await actor.deps.kube.apply(manifest)
    actor.record_write(f"Updated {text}")


def _everywhere(ctx: PhaseContext) -> bool:
    """Whether every component exists, is up to date and ready."""
    found = [ctx.live.facts(component) for component in ctx.rendered.components]
    return all(facts is not None and facts.all_ready and facts.up_to_date for facts in found)
