"""Renders the bookies."""

from __future__ import annotations

from pulsar_operator.api.constants import Component
from pulsar_operator.api.v1alpha1.cluster import BookKeeper
from pulsar_operator.domain.render.addresses import StoreAddress
from pulsar_operator.domain.render.common import (
    Claim,
    Manifest,
    Probes,
)
from pulsar_operator.domain.render.config import for_bookies
from pulsar_operator.domain.render.inputs import ClusterInputs
from pulsar_operator.domain.render.listeners import http_probe
from pulsar_operator.domain.render.pod_racks import racks_from_pods, spread_over, wait_for_rack
from pulsar_operator.domain.render.volumes import volume_limits
from pulsar_operator.domain.render.workloads import component_workload, manifests
from pulsar_operator.domain.render.writecache import FRAME_PADDING, write_cache


def frame_size(max_message_size: int | None) -> dict[str, str]:
    """Returns nettyMaxFrameSizeBytes for the largest message; empty for the stock value, 5 MiB and padding."""
    return {} if max_message_size is None else {"nettyMaxFrameSizeBytes": str(max_message_size + FRAME_PADDING)}


def bookkeeper_config(store: StoreAddress, max_message_size: int | None) -> dict[str, str]:
    """Returns the common configuration of bookies and auto-recovery: the store, the HTTP server (off in the stock file)
    and the frame size."""
    return {
        "metadataServiceUri": store.bookkeeper_uri,
        # The stock file names localhost here; it is not used beside metadataServiceUri and only misleads readers.
        "zkServers": "",
        "httpServerEnabled": "true",
        **frame_size(max_message_size),
    }


def bookie_claims(bookkeeper: BookKeeper) -> tuple[Claim, ...]:
    """Returns the claims journal-<i> and ledgers-<i>. Their number is final, because a bookie refuses to start with
    other folders."""
    journal, ledgers = bookkeeper.journal, bookkeeper.ledgers
    return (
        *(
            Claim(f"journal-{i}", f"/pulsar/data/journal-{i}", journal.size, journal.storage_class_name)
            for i in range(journal.count)
        ),
        *(
            Claim(f"ledgers-{i}", f"/pulsar/data/ledgers-{i}", ledgers.size, ledgers.storage_class_name)
            for i in range(ledgers.count)
        ),
    )


def render_bookie(inputs: ClusterInputs, bookkeeper: BookKeeper, store: StoreAddress) -> list[Manifest]:
    """Returns the ConfigMap, headless Service, PodDisruptionBudget and StatefulSet of the bookies.

    BookKeeper builds the first id of a bookie from advertisedAddress and port. The start program gives another id to a
    bookie that restarts empty (domain/bookkeeper/bookie_ids.py). Ledgers contain ids, so they do not depend on the
    address of a pod.
    """
    spec = inputs.spec
    claims = bookie_claims(bookkeeper)
    message = spec.broker.max_message_size if spec.broker else None
    sized = {**volume_limits(bookkeeper, spec.preset), **write_cache(bookkeeper, spec.preset, message)}
    owned = {
        **bookkeeper_config(store, message),
        "journalDirectories": ",".join(claim.path for claim in claims if claim.name.startswith("journal-")),
        "ledgerDirectories": ",".join(claim.path for claim in claims if claim.name.startswith("ledgers-")),
        "autoRecoveryDaemonEnabled": "false",
    }
    workload = component_workload(
        inputs,
        Component.BOOKIE,
        bookkeeper,
        sized,
        for_bookies(bookkeeper.config),
        owned,
        env=wait_for_rack(bookkeeper),
        replicas=bookkeeper.replicas,
        probes=Probes(
            readiness=http_probe("/api/v1/bookie/is_ready"),
            # A bookie that fails to register may stay up as a zombie with /heartbeat 200 (observed on 4.0.8); only
            # is_ready tells, and it is 200 on a read-only bookie. After a hard kill the start program waits for the
            # session of the killed process (pulsar_start/registration.py). What is left for the probe: a wait that
            # lasted as long as it may, a process of the same id that lives elsewhere, a bookie that ended by itself.
            liveness=http_probe("/api/v1/bookie/is_ready"),
            startup=http_probe("/heartbeat"),
            # HTTP comes up after the journal has been replayed, which takes as long as the journal is big.
            startup_seconds=1800,
        ),
        claims=claims,
        downward=racks_from_pods(bookkeeper),
        spread_over=spread_over(bookkeeper),
    )
    # An unready bookie may hold the only reachable copy of an entry: do not evict it beyond the budget.
    return manifests(workload, evict_unhealthy=False)
