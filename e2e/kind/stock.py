"""What a machine with an image registry takes from it instead of building. Not run so far: no registry was at hand."""

from __future__ import annotations

from e2e.kind import versions
from e2e.kind.cache import Cache, digest_texts
from e2e.kind.docker import Docker
from e2e.kind.shell import Log
from e2e.kind.steps import Step, file_step

#: (program, image, path in the image)
PROGRAMS = (
    ("kubectl", f"registry.k8s.io/kubectl:v{versions.KUBERNETES}", "/bin/kubectl"),
    ("kube-apiserver", f"registry.k8s.io/kube-apiserver:v{versions.KUBERNETES}", "/usr/local/bin/kube-apiserver"),
    ("etcd", versions.ETCD_IMAGE, "/usr/local/bin/etcd"),
)


def program_steps(cache: Cache, docker: Docker) -> list[Step]:
    """kubectl, kube-apiserver and etcd, copied out of their images; Linux only, since that is what images hold."""
    return [_copy_step(cache, docker, program, image, path) for program, image, path in PROGRAMS]


def _copy_step(cache: Cache, docker: Docker, program: str, image: str, path: str) -> Step:
    target = cache.bin / program

    def build(log: Log) -> None:
        cache.bin.mkdir(parents=True, exist_ok=True)
        container = f"pulsar-operator-copy-{program}"
        docker.succeeds("rm", "--force", container)
        docker.run(log, "create", "--name", container, image)
        try:
            # A link to the all-in-one binary of the built branch would otherwise be written through.
            target.unlink(missing_ok=True)
            docker.run(log, "cp", "--follow-link", f"{container}:{path}", target)
            target.chmod(0o755)
        finally:
            docker.succeeds("rm", "--force", container)

    digest = digest_texts("stock-1", image, path)
    return file_step(cache, f"{program} from {image}", f"stock-{program}", digest, outputs=[target], build=build)
