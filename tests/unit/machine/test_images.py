"""What the product images are made of, and which of them a node lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.kind import rootfs, sizingsite, versions
from e2e.kind.cache import Cache
from e2e.kind.conformancesite import image_python
from e2e.kind.docker import Docker
from e2e.kind.dockerfile import MissingSourceError, copy_sources, source_paths, stage
from e2e.kind.nodeload import containerd_name, manifest_ids, parse_listing
from e2e.kind.productimages import CONFORMANCE, OPERATOR, SIZING, ImageBuilder, Product, product_tags
from e2e.kind.steps import SkippedError

SUITE = "operator/pulsar_conformance"
DOCKERFILE = """\
# COPY not/this /x
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
COPY --chown=10000:0 shared/start.py shared/lib/ \\
     /opt/
copy ["with space/a", "/b"]
COPY --from=other /usr/bin/x /usr/bin/x
ADD conf/*.yaml /conf/
COPY shared/lib/ /again/
RUN echo "COPY that /there"
"""


def test_sources_of_a_dockerfile() -> None:
    assert copy_sources(DOCKERFILE) == ["shared/start.py", "shared/lib/", "with space/a", "conf/*.yaml"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    files = ("proxy/Dockerfile", "proxy/start.py", "shared/a.py", "other/b.py", "operator/Dockerfile")
    files += ("conformance_image/Dockerfile", f"{SUITE}/run.py", f"{SUITE}/java/Main.java")
    files += ("operator/pulsar_operator/main.py", "operator/pulsar_sizing/main.py", "requirements/runtime.txt")
    files += ("requirements/conformance.txt", "requirements/sizing.txt", "requirements/java.txt")
    for name in (*files, "sizing_image/Dockerfile", "sizing_image/start.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "proxy" / "Dockerfile").write_text("FROM x\nCOPY proxy/start.py shared/ /opt/\n")
    (folder / "operator" / "Dockerfile").write_text(
        "FROM x\nCOPY requirements/runtime.txt packages* /d\nCOPY operator/pulsar_operator /a\n"
    )
    (folder / "conformance_image" / "Dockerfile").write_text(
        "FROM x\nCOPY requirements/java.txt java-client* /j\nCOPY requirements/conformance.txt packages* /s\n"
        f"COPY {SUITE}/*.py /e\n"
    )
    (folder / "sizing_image" / "Dockerfile").write_text(
        "FROM x\nCOPY requirements/sizing.txt packages* /d\nCOPY sizing_image/start.py sizing_image/left_out.txt /\n"
        "COPY operator/pulsar_operator operator/pulsar_sizing /a\n"
    )
    (folder / "sizing_image" / "left_out.txt").write_text("# nothing\n")
    return folder


PROXY = Product("pulsar-proxy:dev", "proxy")


def builder(root: Path, source: str = "built") -> ImageBuilder:
    return ImageBuilder(Cache(root.parent / "cache"), Docker(), root, "stock" if source == "stock" else "built")


def test_wildcards_are_expanded_and_a_source_of_nothing_is_an_error(root: Path) -> None:
    assert source_paths(root, ["proxy/*.py"]) == [root / "proxy" / "start.py"]
    with pytest.raises(MissingSourceError, match="nothing/here"):
        source_paths(root, ["nothing/here"])


def test_the_context_holds_only_what_is_copied_with_plain_modes(root: Path, tmp_path: Path) -> None:
    (root / "proxy" / "start.py").chmod(0o700)
    (root / "shared" / "a.py").chmod(0o640)
    (root / "shared" / "__pycache__").mkdir()
    (root / "shared" / "__pycache__" / "a.pyc").write_text("")
    context = tmp_path / "context"
    context.mkdir(mode=0o700)
    stage(root, source_paths(root, ["proxy/start.py", "shared/"]), context)
    found = {str(path.relative_to(context)): path.stat().st_mode & 0o777 for path in context.rglob("*")}
    assert found == {"proxy": 0o755, "proxy/start.py": 0o755, "shared": 0o755, "shared/a.py": 0o644}


@pytest.mark.parametrize(
    ("changed", "matters"),
    [
        ("proxy/Dockerfile", True),
        ("proxy/start.py", True),
        ("shared/a.py", True),
        ("proxy/new", True),
        ("other/b.py", False),
    ],
)
def test_an_image_depends_on_its_folder_and_on_what_its_dockerfile_copies(
    root: Path, changed: str, matters: bool
) -> None:
    before = builder(root).digest(PROXY)
    text = "FROM y\nCOPY proxy/start.py shared/ /opt/\n" if changed.endswith("Dockerfile") else "changed"
    (root / changed).write_text(text)
    assert (builder(root).digest(PROXY) != before) is matters


def test_an_image_depends_on_its_base(root: Path) -> None:
    assert builder(root).digest(PROXY) != builder(root, "stock").digest(PROXY)


@pytest.mark.parametrize(
    ("changed", "matters"),
    [
        ("operator/pulsar_operator/main.py", True),
        ("operator/pulsar_sizing/main.py", False),
        ("requirements/runtime.txt", True),
        ("requirements/sizing.txt", False),
        ("requirements/dev.txt", False),
        ("shared/a.py", False),
    ],
)
def test_the_operator_image_depends_on_its_code_and_its_locked_dependencies(
    root: Path, changed: str, matters: bool
) -> None:
    before = builder(root).digest(OPERATOR)
    (root / changed).parent.mkdir(exist_ok=True)
    (root / changed).write_text("changed")
    assert (builder(root).digest(OPERATOR) != before) is matters


@pytest.mark.parametrize(
    ("changed", "matters"),
    [
        (f"{SUITE}/run.py", True),
        (f"{SUITE}/new.py", True),
        ("requirements/conformance.txt", True),
        ("requirements/java.txt", True),
        ("conformance_image/Dockerfile", True),
        ("conformance_image/README.md", False),
        (f"{SUITE}/java/Main.java", False),
        ("requirements/runtime.txt", False),
        ("operator/pulsar_operator/main.py", False),
    ],
)
def test_the_conformance_image_depends_on_the_suite_and_its_locked_dependencies(
    root: Path, changed: str, matters: bool
) -> None:
    before = builder(root).digest(CONFORMANCE)
    file = root / changed
    file.parent.mkdir(exist_ok=True)
    file.write_text((file.read_text() if file.exists() else "") + "\n# changed\n")
    assert (builder(root).digest(CONFORMANCE) != before) is matters


def test_the_conformance_image_depends_on_the_java_client(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = builder(root).digest(CONFORMANCE)
    monkeypatch.setattr("e2e.kind.javaclient.java_client_digest", lambda: "another")
    assert builder(root).digest(CONFORMANCE) != before


@pytest.mark.parametrize(
    ("changed", "matters"),
    [
        ("sizing_image/Dockerfile", True),
        ("sizing_image/start.py", True),
        ("operator/pulsar_sizing/main.py", True),
        ("operator/pulsar_operator/main.py", True),
        ("requirements/sizing.txt", True),
        ("sizing_image/left_out.txt", True),
        ("requirements/runtime.txt", False),
        ("sizing_image/README.md", False),
    ],
)
def test_the_sizing_image_depends_on_its_code_its_start_and_its_locked_dependencies(
    root: Path, changed: str, matters: bool
) -> None:
    before = builder(root).digest(SIZING)
    file = root / changed
    file.parent.mkdir(exist_ok=True)
    file.write_text((file.read_text() if file.exists() else "") + "\n# changed\n")
    assert (builder(root).digest(SIZING) != before) is matters


def test_wheels_of_the_sizing_image_fit_its_base(root: Path) -> None:
    assert builder(root).digest(SIZING) != builder(root, "stock").digest(SIZING)
    built, stock = (sizingsite.sizing_site_digest(root, source) for source in ("built", "stock"))
    assert built != stock


def test_wheels_of_the_conformance_image_fit_its_base(root: Path) -> None:
    """Alpine's Python in the stock Pulsar image, Debian trixie's in the one built here: other wheels."""
    built, stock = image_python("built"), image_python("stock")
    assert (built.version, stock.version) == (versions.BUILT_JAVA_PYTHON, versions.STOCK_JAVA_PYTHON)
    assert "manylinux" in built.platform and "musl" in stock.platform
    assert rootfs.JAVA.suite == "trixie", "its Python is BUILT_JAVA_PYTHON"
    assert builder(root).digest(CONFORMANCE) != builder(root, "stock").digest(CONFORMANCE)


def test_every_product_image_is_built_and_loaded() -> None:
    assert set(product_tags()) == {
        f"pulsar-bookie:{versions.DEV_TAG}",
        f"pulsar-broker:{versions.DEV_TAG}",
        f"pulsar-proxy:{versions.DEV_TAG}",
        "pulsar-operator:dev",
        "pulsar-conformance:dev",
        "pulsar-sizing:dev",
    }


class Commands(list[list[str]]):
    """Commands that a build would run."""

    def run(self, command: list[object]) -> None:
        self.append([str(word) for word in command])


def test_folders_of_the_cache_go_to_their_place_in_the_context(root: Path, tmp_path: Path) -> None:
    context, cache = tmp_path / "context", root.parent / "cache"
    for name in ("conformance-site", "java-client"):
        (cache / name).mkdir(parents=True)
    ran = Commands()
    for extra in CONFORMANCE.extras:
        builder(root)._add(ran, extra, context)  # type: ignore[arg-type]
    assert ran == [
        ["cp", "-al", str(cache / "conformance-site"), str(context / "packages")],
        ["cp", "-al", str(cache / "java-client"), str(context / "java-client")],
    ]
    with pytest.raises(SkippedError, match="operator-site/deps is not there yet"):
        builder(root)._add(ran, OPERATOR.extras[0], context)  # type: ignore[arg-type]


def test_without_a_dockerfile_the_step_says_so(root: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no bookie_image/Dockerfile"):
        builder(root).digest(Product("pulsar-bookie:dev", "bookie_image"))


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("pulsar-broker:4.0.8-dev", "docker.io/library/pulsar-broker:4.0.8-dev"),
        ("pulsar-operator/java:1", "docker.io/pulsar-operator/java:1"),
        ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
        ("localhost/x:1", "localhost/x:1"),
        ("localhost:5000/x:1", "localhost:5000/x:1"),
    ],
)
def test_names_in_a_node(tag: str, name: str) -> None:
    assert containerd_name(tag) == name


def test_listing_of_a_node() -> None:
    text = (
        "REF TYPE DIGEST SIZE PLATFORMS LABELS\n"
        "docker.io/library/a:1 application/vnd.docker.distribution.manifest.v2+json sha256:aa 1.0 MiB linux/amd64 -\n"
        "broken line\n"
    )
    assert parse_listing(text) == {"docker.io/library/a:1": "sha256:aa"}


def test_an_image_is_recognised_by_its_manifest_and_by_its_configuration() -> None:
    assert manifest_ids("sha256:m", {"config": {"digest": "sha256:c"}}) == {"sha256:m", "sha256:c"}
    index = {"manifests": [{"digest": "sha256:x"}, {"digest": "sha256:y"}]}
    assert manifest_ids("sha256:i", index) == {"sha256:i", "sha256:x", "sha256:y"}
