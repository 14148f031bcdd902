"""The command line of ``export``."""

from __future__ import annotations

import argparse
import re
import shlex
from dataclasses import dataclass
from urllib.parse import urlsplit

from pulsar_operator.adapters.admin_access import read_token, trusted
from pulsar_operator.api.v1alpha1.base import DNS_LABEL
from pulsar_operator.ports import AdminAccess

DEFAULT_INSTANCE = "pulsar"
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_NAMESPACE = re.compile(DNS_LABEL)
_HOST = re.compile(r"\.?[A-Za-z0-9]([-A-Za-z0-9._:]{0,251}[A-Za-z0-9])?")


@dataclass(frozen=True)
class Options:
    """The options of the user."""

    admin_url: str
    instance: str = DEFAULT_INSTANCE
    namespace: str | None = None
    tenants: re.Pattern[str] | None = None
    exclude_system: bool = True
    topic_policies: bool = True
    subscriptions: bool = True
    schemas: bool = True
    topic_sets: int | None = None
    """Minimum number of similar topics that are exported as a PulsarTopicSet. If None, no sets are written."""
    cluster: str | None = None
    output: str = "-"
    token_file: str | None = None
    token_hosts: tuple[str, ...] = ()
    """Hosts that the token may be sent to besides that of the URL; see ports.AdminAccess.hosts."""
    ca_file: str | None = None

    @property
    def access(self) -> AdminAccess | None:
        """Returns how Pulsar is trusted and who asks; None without a token and a CA file."""
        if self.token_file is None and self.ca_file is None:
            return None
        hosts = (str(urlsplit(self.admin_url).hostname), *self.token_hosts)
        return AdminAccess(hosts, self.token_file, self.ca_file)

    @property
    def command(self) -> str:
        """Returns the command line of this export."""
        words = ["pulsar-operator", "export", "--admin-url", self.admin_url]
        values = {
            "--token-file": self.token_file,
            "--ca-file": self.ca_file,
            "--instance": self.instance if self.instance != DEFAULT_INSTANCE else None,
            "--namespace": self.namespace,
            "--tenants": self.tenants.pattern if self.tenants is not None else None,
            "--topic-sets": str(self.topic_sets) if self.topic_sets is not None else None,
            "--cluster": self.cluster,
            "--output": self.output if self.output != "-" else None,
        }
        for name, value in values.items():
            words += [name, value] if value is not None else []
        words += [word for host in self.token_hosts for word in ("--token-host", host)]
        flags = {
            "--no-exclude-system": self.exclude_system,
            "--no-topic-policies": self.topic_policies,
            "--no-subscriptions": self.subscriptions,
            "--no-schemas": self.schemas,
        }
        words += [name for name, value in flags.items() if not value]
        return shlex.join(words)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "--admin-url",
        required=True,
        metavar="URL",
        help=("URL of the admin REST API of a broker or proxy (http or https)"),
    )
    parser.add_argument(
        "--token-file", metavar="FILE", help=("file that contains a token of a role with permission to read everything")
    )
    parser.add_argument(
        "--token-host",
        action="append",
        default=[],
        metavar="HOST",
        help="additional host that may receive the token after a redirect, or .SUFFIX for all hosts with this "
        "suffix; may be repeated",
    )
    parser.add_argument(
        "--ca-file",
        metavar="FILE",
        help="PEM file with the certificate authorities of an https URL (default: those of the system)",
    )
    parser.add_argument(
        "--instance",
        default=DEFAULT_INSTANCE,
        metavar="NAME",
        help=f"name of the PulsarInstance to which the tenants refer (default: {DEFAULT_INSTANCE})",
    )
    parser.add_argument(
        "--namespace",
        metavar="NAME",
        help=("Kubernetes namespace of the objects (default: the manifests contain no namespace)"),
    )
    parser.add_argument("--tenants", metavar="REGEX", help="export only tenants whose complete name matches")
    parser.add_argument(
        "--exclude-system",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="do not export objects that brokers created for themselves (default)",
    )
    parser.add_argument(
        "--topic-policies",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="read the policies of topics in namespaces that have topic policies (default)",
    )
    parser.add_argument(
        "--subscriptions",
        action=argparse.BooleanOptionalAction,
        default=True,
        help=(
            "read the durable subscriptions of persistent topics with one call for each topic, which loads the topic "
            "(default)"
        ),
    )
    parser.add_argument(
        "--schemas",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="read the newest schema of topics with one call for each topic (default)",
    )
    parser.add_argument(
        "--topic-sets",
        type=int,
        metavar="N",
        help="write at least N equal topics of a namespace as one PulsarTopicSet; topics with permissions or "
        "subscriptions are written one by one (default: no sets)",
    )
    parser.add_argument(
        "--cluster", metavar="NAME", help="name of the cluster in Pulsar (default: the name is read from Pulsar)"
    )
    parser.add_argument(
        "--output",
        default="-",
        metavar="FILE|-|DIR",
        help="file, standard output (-, the default), or directory (an existing one, or a name that ends with /) with "
        "one file for the tenants and one for each namespace",
    )


def options_of(parser: argparse.ArgumentParser, given: argparse.Namespace) -> Options:
    """Returns the validated options. Ends the process with code 2 and a message if one is invalid."""
    url = str(given.admin_url)
    try:
        parts = urlsplit(url)
        named = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        named = False
    if not named:
        parser.error("--admin-url must be a URL such as http://broker.example:8080")
    if parts.username is not None or parts.query or parts.fragment:
        parser.error("--admin-url must have no user, query or fragment. Use --token-file to give a token")
    if _SUBDOMAIN.fullmatch(given.instance) is None:
        parser.error(f"--instance {given.instance!r} is not a valid name of a Kubernetes object")
    if given.namespace is not None and (_NAMESPACE.fullmatch(given.namespace) is None or len(given.namespace) > 63):
        parser.error(f"--namespace {given.namespace!r} is not a valid name of a Kubernetes namespace")
    if given.topic_sets is not None and given.topic_sets < 2:
        parser.error(f"--topic-sets {given.topic_sets} is too small. The number must be at least 2")
    try:
        tenants = re.compile(given.tenants) if given.tenants is not None else None
    except re.error as error:
        parser.error(f"--tenants {given.tenants!r} is not a regular expression: {error}")
    for host in given.token_host:
        if _HOST.fullmatch(host) is None:
            parser.error(f"--token-host {host!r} is not a host name. Give a name such as broker.example, or .example")
    _check_files(parser, given.token_file, given.ca_file)
    return Options(
        admin_url=url,
        instance=given.instance,
        namespace=given.namespace,
        tenants=tenants,
        exclude_system=given.exclude_system,
        topic_policies=given.topic_policies,
        subscriptions=given.subscriptions,
        schemas=given.schemas,
        topic_sets=given.topic_sets,
        cluster=given.cluster or None,
        output=given.output,
        token_file=given.token_file,
        token_hosts=tuple(given.token_host),
        ca_file=given.ca_file,
    )


def _check_files(parser: argparse.ArgumentParser, token_file: str | None, ca_file: str | None) -> None:
    """Reads the files once, so that a wrong one is reported before anything is asked. They are read again when used."""
    try:
        if token_file is not None:
            read_token(token_file)
        if ca_file is not None:
            trusted(ca_file)
    except ValueError as error:
        parser.error(str(error))
