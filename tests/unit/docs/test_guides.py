"""The pages for developers name what exists: files, modules, options, make targets, names of the code, rooms."""

from __future__ import annotations

import re

import pytest

from tests.support.documents import ROOT
from tests.support.guides import Repository, problems

PAGES = ("docs/architecture.md", "docs/developing.md", "CONTRIBUTING.md")
FOREIGN = frozenset({"PulsarRegistrationClient", "pytest"})
"""Names of Pulsar and of libraries, which no code of ours defines."""
REPOSITORY = Repository(ROOT, foreign=FOREIGN)
MAP = (ROOT / PAGES[0]).read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(?P<room>[\w/]+/)` \| (?P<text>.+) \|$", re.MULTILINE)
MOST_FILES = 3
"""A newcomer opens so many to answer a question."""


def chapter(title: str) -> str:
    """The text below a heading, up to the next one of its level."""
    return MAP.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository with one module, one program and one target."""
    root = tmp_path_factory.mktemp("small")
    files = {
        "operator/pulsar_operator/domain/order.py": "LIMIT = 1\n\n\ndef first(pods):\n    return pods\n",
        "operator/pulsar_operator/domain/checks.py": "",
        "operator/pulsar_operator/domain/__init__.py": "",
        "scripts/draw.py": 'parser.add_argument("--seed")\n',
        "tests/suite/__init__.py": "",
        "crds/kinds.yaml": "spec:\n  replicas: 3\n",
        "Makefile": "lint: setup\n",
        "pyproject.toml": "",
        "versions.toml": "",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Repository(root, foreign=frozenset({"BookieClient"}))


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_exists(page: str) -> None:
    assert problems((ROOT / page).read_text(encoding="utf-8"), REPOSITORY) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("`domain/order.py`, `pulsar_operator/domain/`, `operator/pulsar_operator/domain`", [], id="files"),
        pytest.param("`domain/made_up.py`", ["file domain/made_up.py"], id="made-up-file"),
        pytest.param("`domain/<component>.py`, `made_up/<component>.py`", ["file made_up/<component>.py"], id="any-of"),
        pytest.param("`domain/order.py`, then `checks.py`", [], id="beside-the-file-before"),
        pytest.param("* `domain/order.py`\n* `checks.py`", ["file checks.py"], id="not-in-another-list-item"),
        pytest.param("| `domain/order.py` |\n| `checks.py` |", ["file checks.py"], id="not-in-another-row"),
        pytest.param("`/ledgers/INSTANCEID` and `build/suite`", [], id="znode-and-output"),
        pytest.param("`first`, `first()`, `LIMIT=2`, `spec.replicas`, `BookieClient`", [], id="names"),
        pytest.param("`frobnicate`", ["name frobnicate"], id="made-up-name"),
        pytest.param("`spec.replicaz`", ["name replicaz"], id="made-up-field"),
        pytest.param("`first` of `domain/order.py`", [], id="defined-there"),
        pytest.param("`first` and `LIMIT` in `domain/checks.py`", ["first", "LIMIT"], id="defined-elsewhere"),
        pytest.param("`domain/checks.py` (`first`)", ["first"], id="behind-the-file"),
        pytest.param("`make lint` and `make linty`", ["make target linty"], id="make"),
        pytest.param("`python scripts/draw.py --seed 1`", [], id="option"),
        pytest.param("`python scripts/draw.py --sead 1`", ["option --sead of scripts/draw.py"], id="made-up-option"),
        pytest.param("`--seed`, `--sead`", ["option --sead"], id="option-alone"),
        pytest.param("`python -m tests.suite` and `python -m tests.made_up`", ["module tests.made_up"], id="module"),
        pytest.param("```sh\npython scripts/made_up.py  # draws\n```", ["file scripts/made_up.py"], id="shell"),
        pytest.param("```yaml\nfile: scripts/made_up.py\n```", [], id="no-shell"),
        pytest.param('```mermaid\nA["domain/made_up"] --> B["I/O"]\n```', ["file domain/made_up"], id="drawing"),
    ],
)
def test_what_is_made_up_is_found(small: Repository, text: str, found: list[str]) -> None:
    told = [each.removeprefix("name ").removesuffix(" in domain/checks.py") for each in problems(text, small)]
    assert told == [each.removeprefix("name ") for each in found]


def test_names_that_are_excepted_are_foreign_and_needed() -> None:
    assert not FOREIGN & REPOSITORY.names
    pages = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    assert [name for name in FOREIGN if re.search(rf"`@?{name}\b", pages) is None] == []


def test_every_room_has_its_sentence() -> None:
    rows = {row["room"]: row["text"] for row in ROW.finditer(chapter("Rooms"))}
    assert sorted(rows) == sorted(REPOSITORY.rooms())
    assert [room for room, text in rows.items() if not text.endswith(".") or len(text.split()) < 5] == []


def test_rooms_are_the_packages_of_the_programs(small: Repository) -> None:
    assert small.rooms() == {"domain/"}
    assert {"api/v1alpha1/policies/", "pulsar_conformance/", "pulsar_conformance/kit/"} < REPOSITORY.rooms()


def test_questions_are_answered_in_few_files() -> None:
    rows = [line.split(" | ") for line in chapter("Where it is decided").splitlines() if line.startswith("| ")]
    named = {question.strip("| "): re.findall(r"`([^`]+\.py)`", files) for question, _, files in rows[1:]}
    assert len(named) >= 5
    assert [question for question, files in named.items() if not 1 <= len(files) <= MOST_FILES] == []


def test_walks_name_their_files_in_steps() -> None:
    walks = chapter("Four walks").split("\n### ")[1:]
    assert len(walks) == 4
    steps = [step for walk in walks for step in re.split(r"^\d+\. ", walk, flags=re.MULTILINE)[1:]]
    assert [step for step in steps if not re.search(r"`[^`]+\.py`", step)] == []
