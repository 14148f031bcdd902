"""Which store a process opens: its root, and how the server of an object store is reached. Pure, without pyarrow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, get_args

S3_SCHEMES: Final = ("s3", "s3a")
"""The first is pyarrow's, the second Hadoop's; both name the same bucket."""
DEFAULT_REGION: Final = "us-east-1"
"""Region for which requests to servers other than AWS are signed, unless it is configured."""

Addressing = Literal["auto", "path", "virtual"]
ADDRESSING: Final = get_args(Addressing)


@dataclass(frozen=True)
class S3:
    """How to reach the server of an ``s3://`` root; the defaults are those of AWS."""

    endpoint: str | None = None
    """http://host:port of an S3-compatible server. If unset, the server is AWS."""
    region: str | None = None
    """If unset, the region of the bucket on AWS, and us-east-1 elsewhere."""
    addressing: Addressing = "auto"
    """Whether the bucket is in the path of a URL or in its host name; auto = in the path if there is an endpoint."""

    @property
    def by_path(self) -> bool:
        """Whether the bucket is in the path of each URL."""
        return self.addressing == "path" or (self.addressing == "auto" and self.endpoint is not None)

    def signed_for(self) -> str | None:
        """The region for which requests are signed; None for that of the bucket."""
        return self.region or (DEFAULT_REGION if self.endpoint is not None else None)


@dataclass(frozen=True)
class Place:
    """What a process on another machine needs to open the same store."""

    root: str
    s3: S3 = field(default_factory=S3)

    @property
    def on_s3(self) -> bool:
        """Whether the root is a bucket or a folder of one."""
        return scheme_of(self.root) in S3_SCHEMES


def scheme_of(root: str) -> str | None:
    """Scheme of a URL; None for a path."""
    return root.partition("://")[0] if "://" in root else None
