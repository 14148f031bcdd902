"""The command line: ``python -m e2e.kind COMMAND``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from e2e.kind.delivery import Delivery
from e2e.kind.kindconfig import Cluster
from e2e.kind.machine import Machine
from e2e.kind.paths import paths
from e2e.kind.steps import StepFailedError

COMMANDS = {
    "tools": "prerequisites, kubectl, helm, kind, kube-apiserver, etcd, Pulsar and the Java client; needs no engine",
    "java-client": "the Java program of the conformance suite; needs no engine",
    "newer-pulsar": "the jars of a newer Pulsar, for tests of what only that has; needs no engine",
    "engine": "a container engine that answers",
    "node-image": "the node image of the cluster",
    "pulsar-base": "the base image of the Pulsar images, and the distribution unpacked",
    "python-base": "the base image of the operator image",
    "images": "the product's own images",
    "older-images": "those of brokers, bookies and proxies on the older Pulsar that upgrades begin with",
    "status": "what is there",
    "paths": "names and places, as JSON",
}


def parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    main_parser = argparse.ArgumentParser(prog="python -m e2e.kind", description=sys.modules["e2e.kind"].__doc__)
    commands = main_parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    plain = {name: commands.add_parser(name, help=text) for name, text in COMMANDS.items()}
    images = plain["images"]
    images.add_argument("--registry", default="", help="name them for this registry, as the charts ask for them")
    images.add_argument("--push", action="store_true", help="push them there")
    images.add_argument(
        "--platform", default="", help="for other processors: linux/amd64,linux/arm64 (by docker buildx)"
    )
    up = commands.add_parser("up", help="a healthy cluster with the product images, built when they are not current")
    up.add_argument("name", metavar="NAME")
    up.add_argument("--pulsar-port", type=int, default=6650, help="port of 127.0.0.1 for the binary protocol (6650)")
    up.add_argument("--web-port", type=int, default=8080, help="port of 127.0.0.1 for HTTP (8080)")
    up.add_argument("--second-port", type=int, default=0, help="the same for a second cluster (none)")
    up.add_argument("--audit", action=argparse.BooleanOptionalAction, default=True, help="audit log of writes (on)")
    up.add_argument("--registry-port", type=int, default=0, help="port of 127.0.0.1 of a registry that it pulls from")
    up.add_argument("--images", action=argparse.BooleanOptionalAction, default=True, help="build the images first (on)")
    load = commands.add_parser("load", help="load images into a running cluster")
    load.add_argument("name", metavar="NAME")
    load.add_argument("images", metavar="IMAGE", nargs="*", help="other images than the product's")
    down = commands.add_parser("down", help="remove a cluster")
    down.add_argument("name", metavar="NAME")
    return main_parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0, or 1 when a step failed (the runner has said why), or 2 for a wrong call."""
    arguments = parser().parse_args(argv)
    if arguments.command == "images" and (arguments.push or arguments.platform) and not arguments.registry:
        print("PUSH and PLATFORM go with REGISTRY: name the registry that the images are for", file=sys.stderr)
        return 2
    if arguments.command == "paths":
        print(json.dumps(paths().as_json(), indent=2))
        return 0
    machine = Machine(command=" ".join(sys.argv[1:] if argv is None else argv))
    if arguments.command == "status":
        machine.status()
        return 0
    try:
        with machine.cache.lock():
            if arguments.command == "up":
                registry = f"127.0.0.1:{arguments.registry_port}" if arguments.registry_port else ""
                asked = Cluster(
                    arguments.name,
                    arguments.pulsar_port,
                    arguments.web_port,
                    arguments.audit,
                    arguments.second_port,
                    registry,
                )
                machine.up(asked, build_images=arguments.images)
            elif arguments.command == "load":
                machine.load(arguments.name, arguments.images)
            elif arguments.command == "down":
                machine.down(arguments.name)
            elif arguments.command == "images" and arguments.registry:
                machine.deliver(Delivery(arguments.registry, arguments.push, arguments.platform))
            else:
                machine.make(arguments.command)
    except StepFailedError:
        return 1
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
