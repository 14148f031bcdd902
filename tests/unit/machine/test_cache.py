"""Hashing of inputs and the stamps that let a step be skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.kind.cache import COLD_FREE_BYTES, Cache, DiskFullError, default_cache, digest_paths, digest_texts


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_texts_are_hashed_with_their_boundaries() -> None:
    assert digest_texts("ab", "c") != digest_texts("a", "bc")
    assert digest_texts("a") == digest_texts("a")


def test_same_contents_in_another_folder_have_the_same_hash(tmp_path: Path) -> None:
    for clone in ("one", "two"):
        write(tmp_path / clone / "recipe" / "a.txt", "x")
    assert digest_paths(tmp_path / "one", [tmp_path / "one" / "recipe"]) == digest_paths(
        tmp_path / "two", [tmp_path / "two" / "recipe"]
    )


@pytest.mark.parametrize("change", ["content", "name", "mode", "new file", "link"])
def test_every_change_that_matters_changes_the_hash(tmp_path: Path, change: str) -> None:
    file = write(tmp_path / "recipe" / "a.txt", "x")
    before = digest_paths(tmp_path, [tmp_path / "recipe"])
    if change == "content":
        file.write_text("y")
    elif change == "name":
        file.rename(file.with_name("b.txt"))
    elif change == "mode":
        file.chmod(0o755)
    elif change == "new file":
        write(tmp_path / "recipe" / "sub" / "b.txt", "")
    else:
        (tmp_path / "recipe" / "link").symlink_to("a.txt")
    assert digest_paths(tmp_path, [tmp_path / "recipe"]) != before


def test_what_tools_leave_behind_and_the_umask_do_not_change_the_hash(tmp_path: Path) -> None:
    file = write(tmp_path / "recipe" / "a.py", "x")
    before = digest_paths(tmp_path, [tmp_path / "recipe"])
    write(tmp_path / "recipe" / "__pycache__" / "a.cpython-311.pyc", "junk")
    write(tmp_path / "recipe" / "b.pyc", "junk")
    file.chmod(0o600)
    assert digest_paths(tmp_path, [tmp_path / "recipe"]) == before


def test_a_path_that_is_absent_is_an_input_too(tmp_path: Path) -> None:
    before = digest_paths(tmp_path, [tmp_path / "later"])
    write(tmp_path / "later", "")
    assert digest_paths(tmp_path, [tmp_path / "later"]) != before


def test_a_stamp_counts_only_with_its_hash_and_its_outputs(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    output = write(tmp_path / "bin" / "tool", "")
    assert not cache.stamped("tool", "h1", [output])
    cache.write_stamp("tool", "h1")
    assert cache.stamped("tool", "h1", [output])
    assert not cache.stamped("tool", "h2", [output])
    output.unlink()
    assert not cache.stamped("tool", "h1", [output])


def test_the_cache_folder_follows_the_environment(tmp_path: Path) -> None:
    assert default_cache({"XDG_CACHE_HOME": str(tmp_path)}).root == tmp_path / "pulsar-operator"
    home = Path.home() / ".cache" / "pulsar-operator"
    assert default_cache({}).root == home
    assert default_cache({"XDG_CACHE_HOME": "relative"}).root == home


def test_a_cold_build_wants_more_room_than_a_warm_one(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.require_room(free=COLD_FREE_BYTES)
    with pytest.raises(DiskFullError, match="15 GiB are needed"):
        cache.require_room(free=COLD_FREE_BYTES - 1)
    cache.write_stamp("tool", "h1")
    cache.require_room(free=COLD_FREE_BYTES - 1)
