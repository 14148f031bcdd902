"""Fetches what an image needs, while it is built, unless it was given: run by the Dockerfiles, in the image.

``fetch.py python FOLDER LOCK``, ``fetch.py java FOLDER LOCK SOURCES`` and ``fetch.py jars FOLDER LOCK``. A folder with
packages or jars in it was filled by whoever builds (``python -m e2e.kind images``), and stays as it is; to such a one,
``jars`` adds what it lacks of the lock. Otherwise the locked packages come from the package index, the locked jars from
Maven Central, each with its hash checked. Standard library only; Python packages need the base image's pip, the Java
program its compiler (module jdk.compiler, which a JRE may have too).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
#: Another one, such as a mirror of one's own.
MAVEN_VARIABLE = "MAVEN_REPOSITORY"
SECONDS = 120


class FetchError(RuntimeError):
    """Something that was fetched is not what is locked, or cannot be fetched; the text is for who builds."""


def python_packages(folder: Path, lock: Path, build_lock: Path | None, from_source: Sequence[str]) -> None:
    """Install the locked packages into a folder; those from source with the tools of build_lock, which are locked too.

    Raises FetchError where the base image has no pip, CalledProcessError when pip fails.
    """
    try:
        subprocess.run([sys.executable, "-m", "pip", "--version"], check=True, capture_output=True)
    except subprocess.CalledProcessError as error:
        raise FetchError("no packages were given and BASE_IMAGE has no pip to fetch them: use one that has") from error
    with tempfile.TemporaryDirectory() as tools:
        environ = dict(os.environ)
        choice = ["--only-binary", ":all:"]
        if from_source:
            _pip(environ, "--target", tools, *choice, "--requirement", str(build_lock))
            environ["PYTHONPATH"] = tools
            choice += ["--no-binary", ",".join(from_source), "--no-build-isolation", "--use-pep517"]
        # The lock has every package: resolving again could only fail over what one of them asks for.
        _pip(environ, "--target", str(folder), "--no-deps", *choice, "--requirement", str(lock))
    # Programs for a shell.
    shutil.rmtree(folder / "bin", ignore_errors=True)


def leave_out(folder: Path, listed: Path) -> None:
    """Remove what a list names. Raises FetchError when a pattern fits nothing: then the packages are other ones."""
    for pattern in patterns(listed):
        found = sorted(folder.glob(pattern))
        if not found:
            raise FetchError(f"{pattern} fits nothing in {folder}: look what replaced it, and change {listed.name}")
        for path in found:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def patterns(listed: Path) -> list[str]:
    """The patterns of a list: one a line, without comments and empty lines."""
    lines = (line.strip() for line in listed.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def locked_jars(lock: Path) -> Iterator[tuple[str, str]]:
    """(SHA-256 in hexadecimal, path in a Maven repository) of each locked jar."""
    for line in patterns(lock):
        digest, path = line.split()
        yield digest, path


def maven_repository() -> str:
    """Where jars come from."""
    return os.environ.get(MAVEN_VARIABLE) or MAVEN_CENTRAL


def java_libraries(folder: Path, lock: Path, repository: str) -> int:
    """Put the locked jars into a folder, unless they are there; returns their bytes, all together.

    Raises FetchError for another hash, URLError when there is no answer.
    """
    size = 0
    for digest, path in locked_jars(lock):
        target = folder / Path(path).name
        if target.is_file() and hashlib.sha256(target.read_bytes()).hexdigest() == digest:
            size += target.stat().st_size
            continue
        with urllib.request.urlopen(f"{repository.rstrip('/')}/{path}", timeout=SECONDS) as answer:
            content = answer.read()
        found = hashlib.sha256(content).hexdigest()
        if found != digest:
            raise FetchError(f"{path} has the SHA-256 {found}, and {lock.name} says {digest}")
        target.write_bytes(content)
        size += len(content)
    return size


def java_program(folder: Path, sources: Path, jar: str) -> None:
    """Compile the program below ``sources``/main for the image's own Java, as a jar beside its libraries."""
    with tempfile.TemporaryDirectory() as scratch:
        classes, resources = Path(scratch), sources / "main" / "resources"
        files = sorted(str(file) for file in (sources / "main" / "java").rglob("*.java"))
        compiler = ["java", "--module", "jdk.compiler/com.sun.tools.javac.Main", "-proc:none", "-encoding", "UTF-8"]
        # One by one: it is the compiler's launcher, not the compiler, that knows wildcards.
        libraries = os.pathsep.join(str(library) for library in sorted(folder.glob("*.jar")))
        subprocess.run([*compiler, "-cp", libraries, "-d", scratch, *files], check=True)
        if resources.is_dir():
            shutil.copytree(resources, classes, dirs_exist_ok=True)
        with zipfile.ZipFile(folder / jar, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(path for path in classes.rglob("*") if path.is_file()):
                archive.write(file, file.relative_to(classes))


def _pip(environ: dict[str, str], *arguments: str) -> None:
    # Not compiled here: the Dockerfiles compile everything in one way, whoever fetched it.
    options = ["--quiet", "--no-cache-dir", "--no-compile", "--disable-pip-version-check", "--root-user-action=ignore"]
    command = [sys.executable, "-m", "pip", "install", *options, "--require-hashes", *arguments]
    subprocess.run(command, check=True, env=environ)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; 0, or 1 after saying what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    python, java, jars = (kinds.add_parser(name) for name in ("python", "java", "jars"))
    for kind in (python, java, jars):
        kind.add_argument("folder", type=Path)
        kind.add_argument("lock", type=Path)
    python.add_argument("--from-source", action="append", default=[], help="a package that has no wheels")
    python.add_argument("--build-lock", type=Path, help="the locked tools that make wheels of them")
    python.add_argument("--leave-out", type=Path, help="a list of patterns that are removed afterwards")
    java.add_argument("sources", type=Path)
    java.add_argument("--jar", default="conformance-client-1.jar", help="name of the compiled program")
    options = parser.parse_args(argv)
    given = options.kind != "jars" and any(options.folder.glob("*.dist-info" if options.kind == "python" else "*.jar"))
    if given:
        print(f"{options.folder}: given")
        return 0
    try:
        if options.kind == "python":
            python_packages(options.folder, options.lock, options.build_lock, options.from_source)
            if options.leave_out:
                leave_out(options.folder, options.leave_out)
        else:
            options.folder.mkdir(parents=True, exist_ok=True)
            size = java_libraries(options.folder, options.lock, maven_repository())
            print(f"{options.lock.name}: {size / 1e6:.1f} MB of jars")
        if options.kind == "java":
            java_program(options.folder, options.sources, options.jar)
    except (FetchError, OSError, subprocess.CalledProcessError) as error:
        print(f"{options.folder}: {error}", file=sys.stderr)
        return 1
    print(f"{options.folder}: fetched")
    return 0


if __name__ == "__main__":
    sys.exit(main())
