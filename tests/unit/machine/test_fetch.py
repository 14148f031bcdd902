"""requirements/fetch.py: what Dockerfiles fetch, and what they take as given."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from requirements import fetch

ROOT = Path(__file__).resolve().parents[3]


class Commands(list[list[str]]):
    """Commands that would run, and their environments; those of a word that is refused fail."""

    def __init__(self, refused: str = "") -> None:
        super().__init__()
        self.environments: list[dict[str, str]] = []
        self._refused = refused

    def __call__(self, command: list[str], **options: Any) -> None:
        self.append(command[1:])
        self.environments.append(options.get("env") or {})
        if self._refused and self._refused in command:
            raise subprocess.CalledProcessError(1, command)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    found = Commands()
    monkeypatch.setattr(subprocess, "run", found)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "deps"
    found.mkdir()
    return found


def lock(folder: Path, text: str) -> str:
    (folder.parent / "lock.txt").write_text(text)
    return str(folder.parent / "lock.txt")


def test_given_packages_stay_as_they_are(folder: Path, commands: Commands, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "x-1.dist-info").mkdir()
    assert fetch.main(["python", str(folder), "lock", "--leave-out", "nothing-there"]) == 0
    assert commands == []
    assert "given" in capsys.readouterr().out


def test_given_jars_stay_as_they_are(folder: Path, commands: Commands) -> None:
    (folder / "a.jar").touch()
    assert fetch.main(["java", str(folder), "lock", "sources"]) == 0
    assert commands == []


def test_packages_are_fetched_by_their_hashes_and_as_wheels(folder: Path, commands: Commands) -> None:
    (folder / "lock.txt").touch()
    (folder / "bin").mkdir()
    assert fetch.main(["python", str(folder), str(folder / "lock.txt")]) == 0
    _probe, install = commands
    assert "--require-hashes" in install
    assert install[install.index("--only-binary") + 1] == ":all:"
    assert install[install.index("--target") + 1] == str(folder)
    assert "--no-binary" not in install
    assert sorted(path.name for path in folder.iterdir()) == ["lock.txt"], "programs for a shell are left out"


def test_a_package_without_wheels_is_made_with_locked_tools(folder: Path, commands: Commands) -> None:
    asked = ["python", str(folder), "lock", "--from-source", "pyspark", "--build-lock", "build.txt"]
    assert fetch.main(asked) == 0
    _probe, tools, install = commands
    assert tools[-1] == "build.txt" and "--require-hashes" in tools
    assert install[install.index("--no-binary") + 1] == "pyspark"
    assert "--no-build-isolation" in install, "an isolated build fetches tools of any hash"
    assert commands.environments[2]["PYTHONPATH"] == tools[tools.index("--target") + 1]


def test_without_pip_it_says_what_to_do(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(subprocess, "run", Commands(refused="--version"))
    assert fetch.main(["python", str(folder), "lock"]) == 1
    assert "BASE_IMAGE has no pip" in capsys.readouterr().err


def test_jars_are_fetched_and_the_program_is_laid_beside_them(
    tmp_path: Path, folder: Path, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = tmp_path / "repository" / "g" / "a" / "1" / "a-1.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"library")
    sources = tmp_path / "src"
    for name in ("java/x/Main.java", "resources/x.properties"):
        (sources / "main" / name).parent.mkdir(parents=True, exist_ok=True)
        (sources / "main" / name).write_text(name)
    digest = hashlib.sha256(b"library").hexdigest()
    monkeypatch.setenv(fetch.MAVEN_VARIABLE, f"{(tmp_path / 'repository').as_uri()}/")
    text = f"# comment\n\n{digest}  g/a/1/a-1.jar\n"
    assert fetch.main(["java", str(folder), lock(folder, text), str(sources), "--jar", "own.jar"]) == 0
    assert (folder / "a-1.jar").read_bytes() == b"library"
    assert zipfile.ZipFile(folder / "own.jar").namelist() == ["x.properties"]
    (compiler,) = commands
    assert compiler[compiler.index("-cp") + 1] == str(folder / "a-1.jar")
    assert compiler[-1] == str(sources / "main/java/x/Main.java")


def test_a_jar_of_another_hash_is_refused(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jar").write_bytes(b"something else")
    monkeypatch.setenv(fetch.MAVEN_VARIABLE, tmp_path.as_uri())
    assert fetch.main(["java", str(folder), lock(folder, f"{'0' * 64}  a.jar\n"), str(tmp_path)]) == 1
    assert "a.jar has the SHA-256" in capsys.readouterr().err
    assert list(folder.iterdir()) == []


def test_a_folder_gets_the_jars_that_it_lacks(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """PySpark's own jars are there before; what was given with the right content is not asked for again."""
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "b.jar").write_bytes(b"b" * 100_000)
    (folder / "pyspark-own.jar").write_bytes(b"own")
    (folder / "a.jar").write_bytes(b"a")
    (folder / "b.jar").write_bytes(b"half of it")
    monkeypatch.setenv(fetch.MAVEN_VARIABLE, repository.as_uri())
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in {"a": b"a", "b": b"b" * 100_000}.items()}
    text = f"{digests['a']}  a.jar\n{digests['b']}  b.jar\n"
    for _ in range(2):
        assert fetch.main(["jars", str(folder), lock(folder, text)]) == 0
        assert "lock.txt: 0.1 MB of jars" in capsys.readouterr().out
        assert {jar.name: len(jar.read_bytes()) for jar in folder.iterdir()} == {
            "pyspark-own.jar": 3,
            "a.jar": 1,
            "b.jar": 100_000,
        }


@pytest.fixture
def unpacked(folder: Path) -> Path:
    """Packages of which every pattern of the sizing image's list fits something, a folder where it names one."""
    for pattern in fetch.patterns(ROOT / "sizing_image/left_out.txt"):
        path = folder / pattern.replace("*", "1")
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".jar":
            path.write_text("")
        else:
            path.mkdir()
            (path / "file").write_text("")
    return folder


def test_packages_of_the_sizing_image_lose_what_is_listed_and_nothing_else(unpacked: Path) -> None:
    kept = {"pyspark/jars/spark-kubernetes_2.jar", "pyspark/jars/hive-storage-api-2.jar", "pyarrow/lib.so"}
    for name in kept:
        (unpacked / name).write_text("")
    fetch.leave_out(unpacked, ROOT / "sizing_image/left_out.txt")
    assert {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()} == kept


def test_packages_of_another_kind_stop_the_build(unpacked: Path) -> None:
    (unpacked / "pyspark" / "jars" / "rocksdbjni-1.jar").unlink()
    with pytest.raises(fetch.FetchError, match=r"rocksdbjni-\*\.jar fits nothing.*change left_out\.txt"):
        fetch.leave_out(unpacked, ROOT / "sizing_image/left_out.txt")
