"""Apache Pulsar: its distribution from Maven Central, unpacked for use on the host, and the base image made of it."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

from e2e.kind import rootfs, versions
from e2e.kind.cache import Cache, digest_paths, digest_texts
from e2e.kind.docker import Docker, image_step
from e2e.kind.nodeimage import scratch_folder
from e2e.kind.shell import Log
from e2e.kind.steps import Step, file_step

RECIPE = Path(__file__).parent / "recipes" / "pulsar"
NEWER_RECIPE = Path(__file__).parent / "recipes" / "pulsar-newer"
MAVEN_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
MAVEN_TREE_PLUGIN = f"{MAVEN_PLUGIN}-dependencies"
#: What the image takes of the distribution; examples and the workers of Pulsar Functions are left out.
TAKEN = ("bin", "conf", "lib", "LICENSE", "NOTICE")


def artifact(version: str = versions.PULSAR) -> str:
    """The distribution as Maven names it."""
    return f"org.apache.pulsar:pulsar-server-distribution:{version}:tar.gz:bin"


def pulsar_home(cache: Cache, version: str = versions.PULSAR) -> Path:
    """The folder of the unpacked distribution, or of what newer_step makes like one."""
    return cache.pulsar_home / f"apache-pulsar-{version}"


def distribution_step(cache: Cache, version: str = versions.PULSAR) -> Step:
    """Fetch and unpack the distribution; integration tests run its ZooKeeper on the host, the image is made of it."""
    home = pulsar_home(cache, version)

    def build(log: Log) -> None:
        with scratch_folder(cache, "pulsar-distribution") as folder:
            copy = [f"-Dartifact={artifact(version)}", f"-DoutputDirectory={folder}"]
            log.run(["mvn", "--batch-mode", "--quiet", MAVEN_PLUGIN, *copy])
            (tarball,) = folder.glob("*.tar.gz")
            shutil.rmtree(home, ignore_errors=True)
            home.parent.mkdir(parents=True, exist_ok=True)
            log.run(["tar", "--extract", "--no-same-owner", "--file", tarball, "--directory", home.parent])
        for path in (home, *home.rglob("*")):
            _group_like_user(path)

    digest = digest_texts("pulsar-1", artifact(version))
    outputs = [home / "bin" / "pulsar", home / "lib"]
    key = "pulsar" if version == versions.PULSAR else f"pulsar-{version}"
    return file_step(cache, f"pulsar {version}", key, digest, outputs=outputs, build=build)


def newer_step(cache: Cache) -> Step:
    """A newer Pulsar that runs as a standalone: its jars, with scripts and configuration of the distribution."""
    home, older = pulsar_home(cache, versions.NEWER_PULSAR), pulsar_home(cache)

    def build(log: Log) -> None:
        with scratch_folder(cache, "pulsar-newer") as folder:
            shutil.copy(NEWER_RECIPE / "pom.xml", folder)
            named = {"pulsar": versions.NEWER_PULSAR, "opentelemetry": versions.NEWER_OPENTELEMETRY}
            options = [f"-D{name}.version={version}" for name, version in named.items()]
            # Jars of one name and version come from several groups.
            options += [f"-DoutputDirectory={folder / 'lib'}", "-DincludeScope=runtime", "-Dmdep.prependGroupId=true"]
            log.run(["mvn", "--batch-mode", "--quiet", MAVEN_TREE_PLUGIN, *options], cwd=folder)
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
            shutil.move(folder / "lib", home / "lib")
            for name in ("bin", "conf"):
                shutil.copytree(older / name, home / name)

    recipe = digest_paths(NEWER_RECIPE, [NEWER_RECIPE])
    digest = digest_texts("pulsar-newer-1", versions.NEWER_PULSAR, versions.NEWER_OPENTELEMETRY, artifact(), recipe)
    outputs = [home / "bin" / "pulsar", home / "conf", home / "lib"]
    return file_step(cache, f"pulsar {versions.NEWER_PULSAR}", "pulsar-newer", digest, outputs=outputs, build=build)


def base_digest(version: str = versions.PULSAR) -> str:
    """Inputs hash of the Pulsar base image built here."""
    recipe = digest_paths(RECIPE, [RECIPE])
    return digest_texts("pulsar-base-1", artifact(version), rootfs.JAVA.digest(), *TAKEN, recipe)


def base_image_steps(cache: Cache, docker: Docker, version: str = versions.PULSAR) -> list[Step]:
    """The steps from Debian packages and the distribution to the Pulsar base image."""
    tag, digest = versions.built_pulsar_base(version), base_digest(version)

    def build(log: Log) -> None:
        with scratch_folder(cache, "pulsar-base") as context:
            target = context / "pulsar"
            target.mkdir()
            for name in TAKEN:
                # Hard links: the copy of half a gigabyte costs nothing, and Docker reads it only.
                log.run(["cp", "-al", pulsar_home(cache, version) / name, target / name])
            for name in ("data", "logs"):
                (target / name).mkdir()
                (target / name).chmod(0o775)
            arguments = {"BASE_IMAGE": rootfs.JAVA.tag}
            recipe = RECIPE / "Dockerfile"
            docker.build(log, tag, context, digest, dockerfile=recipe, build_args=arguments)

    return [
        rootfs.rootfs_step(cache, docker, "java", rootfs.JAVA),
        image_step(docker, f"pulsar base image {tag}", tag, digest, build),
    ]


def _group_like_user(path: Path) -> None:
    # g=u, so that any user id in group 0 can do what user 10000 can; links have no mode of their own.
    if path.is_symlink():
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    wanted = (mode & ~stat.S_IRWXG) | ((mode & stat.S_IRWXU) >> 3)
    if wanted != mode:
        path.chmod(wanted)
