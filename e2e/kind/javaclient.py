"""The small Java program of the conformance suite, built with Maven into the cache: one folder of jars."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from e2e.kind import versions
from e2e.kind.cache import Cache, digest_paths, digest_texts
from e2e.kind.nodeimage import scratch_folder
from e2e.kind.prereq import Need
from e2e.kind.shell import CommandError, Log
from e2e.kind.steps import Step, file_step
from requirements import fetch

SOURCES = Path(__file__).parents[2] / "operator" / "pulsar_conformance" / "java"
#: The libraries by their hashes, for who builds the image without Maven.
LOCKED = Path(__file__).parents[2] / "requirements" / "java.txt"
PROGRAM = "conformance-client-1.jar"
#: What Maven reads; what an editor or a build by hand leaves beside it is none of it.
READ = ("pom.xml", "src")
JAVAC = Need("javac", ("openjdk-17-jdk-headless",), "the conformance suite has a Java program")


def java_client(cache: Cache) -> Path:
    """The folder of jars that is the program's class path."""
    return cache.root / "java-client"


def java_client_digest() -> str:
    """Inputs hash of the program and its libraries."""
    return digest_texts("java-client-1", versions.PULSAR, digest_paths(SOURCES, [SOURCES / name for name in READ]))


def java_client_step(cache: Cache) -> Step:
    """Compile the program and lay it beside the libraries that it needs."""
    home = java_client(cache)

    def build(log: Log) -> None:
        with scratch_folder(cache, "java-client") as folder:
            for name in READ:
                source = SOURCES / name
                (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
            version = f"-Dpulsar.version={versions.PULSAR}"
            log.run(["mvn", "--batch-mode", "--quiet", version, "package"], cwd=folder)
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
            for jar in (*(folder / "target").glob("*.jar"), *(folder / "target" / "lib").glob("*.jar")):
                shutil.move(jar, home / jar.name)
        compare(home)

    outputs = [home / PROGRAM, home / f"pulsar-client-{versions.PULSAR}.jar"]
    return file_step(cache, "java client", "java-client", java_client_digest(), outputs=outputs, build=build)


def compare(home: Path) -> None:
    """Raise CommandError when the libraries are others than the locked ones: then two images would not be the same."""
    found = {
        jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in home.glob("*.jar") if jar.name != PROGRAM
    }
    locked = {Path(path).name: digest for digest, path in fetch.locked_jars(LOCKED)}
    other = sorted(name for name in found.keys() | locked.keys() if found.get(name) != locked.get(name))
    if other:
        raise CommandError(f"{LOCKED.name} says otherwise of {', '.join(other)}: write what Maven fetched into it")
