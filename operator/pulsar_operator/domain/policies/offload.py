"""The format of offload policies, the same for namespaces and topics (class OffloadPoliciesImpl of Pulsar 4.0)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulsar_operator.api.v1alpha1.policies import Offload, OffloadDriver, OffloadReadPriority
from pulsar_operator.domain.policies.codecs import Codec, words

_driver_out, _driver_in = words(
    {
        OffloadDriver.AWS_S3: "aws-s3",
        OffloadDriver.S3: "S3",
        OffloadDriver.GOOGLE_CLOUD_STORAGE: "google-cloud-storage",
        OffloadDriver.AZURE_BLOB: "azureblob",
        OffloadDriver.ALIYUN_OSS: "aliyun-oss",
        OffloadDriver.FILE_SYSTEM: "filesystem",
    }
)
_priority_out, _priority_in = words(
    {
        OffloadReadPriority.TIERED_STORAGE_FIRST: "TIERED_STORAGE_FIRST",
        OffloadReadPriority.BOOKKEEPER_FIRST: "BOOKKEEPER_FIRST",
    }
)
_OFFLOAD: Mapping[str, tuple[str, Any]] = {
    "bucket": ("managedLedgerOffloadBucket", None),
    "region": ("managedLedgerOffloadRegion", None),
    "service_endpoint": ("managedLedgerOffloadServiceEndpoint", None),
    "s3_role": ("s3ManagedLedgerOffloadRole", None),
    "s3_role_session_name": ("s3ManagedLedgerOffloadRoleSessionName", "pulsar-s3-offload"),
    "threshold": ("managedLedgerOffloadThresholdInBytes", None),
    "threshold_seconds": ("managedLedgerOffloadThresholdInSeconds", None),
    "deletion_lag_milliseconds": ("managedLedgerOffloadDeletionLagInMillis", None),
    "max_block_size": ("managedLedgerOffloadMaxBlockSizeInBytes", None),
    "read_buffer_size": ("managedLedgerOffloadReadBufferSizeInBytes", None),
    "max_threads": ("managedLedgerOffloadMaxThreads", 2),
    "read_threads": ("managedLedgerOffloadReadThreads", 2),
    "prefetch_rounds": ("managedLedgerOffloadPrefetchRounds", 1),
}
"""Plain members of Offload: Pulsar's name, and Pulsar's default if it is absent (class OffloadPoliciesImpl)."""


NO_DRIVER = "no image of this version has an offload driver, which tiered storage requires"
"""Why offload is not written: a topic whose offload driver the broker lacks cannot be loaded."""


def _encode_offload(value: Offload) -> dict[str, Any]:
    body: dict[str, Any] = {"managedLedgerOffloadDriver": _driver_out(value.driver)}
    if value.read_priority is not None:
        body["managedLedgerOffloadedReadPriority"] = _priority_out(value.read_priority)
    members = ((name, getattr(value, member)) for member, (name, _) in _OFFLOAD.items())
    return body | {name: found for name, found in members if found is not None}


def _decode_offload(live: Mapping[str, Any]) -> Offload | None:
    """Returns the offload policy; None also for thresholds without a driver, which older endpoints such as
    offloadThreshold write."""
    if live.get("managedLedgerOffloadDriver") is None:
        return None
    members: dict[str, Any] = {member: live.get(name) for member, (name, _) in _OFFLOAD.items()}
    priority = live.get("managedLedgerOffloadedReadPriority")
    return Offload(
        driver=_driver_in(live["managedLedgerOffloadDriver"]),
        read_priority=_priority_in(priority) if priority is not None else None,
        **members,
    )


def _same_offload(desired: Offload, found: Offload) -> bool:
    filled = {name: default for name, default in _OFFLOAD.values() if default is not None}
    return filled | _encode_offload(desired) == filled | _encode_offload(found)


OFFLOAD = Codec(
    _encode_offload,
    _decode_offload,
    equal=_same_offload,
)
