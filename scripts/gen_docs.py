"""Writes the parts of docs/ and README.md that repeat the code: ``python scripts/gen_docs.py [--check]``.

A page marks such a part with ``<!-- generated: NAME -->`` and ``<!-- /generated -->``; what is between them is replaced
by PARTS[NAME]. With --check nothing is written and the exit code is 1 when a page is not current.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import gen_policies  # beside this file, like the next
import gen_reference
from gen_reference import table

from pulsar_conformance.catalogue import all_checks
from pulsar_conformance.concepts import CONCEPTS, SECTIONS
from pulsar_conformance.model import Check, Concept, is_slot
from pulsar_conformance.settings import CONFIGURED, INTERVALS
from pulsar_conformance.skips import EXPECTED_SKIPS
from pulsar_operator.adapters.metrics import PrometheusMetrics
from pulsar_operator.api.constants import Component
from pulsar_operator.api.healing import SETS, Healing
from pulsar_operator.api.v1alpha1.base import Preset
from pulsar_operator.api.v1alpha1.cluster import Ensemble
from pulsar_operator.domain.conditions import STALLED_SECONDS
from pulsar_operator.domain.render.presets import container_resources, preset_values
from pulsar_operator.domain.render.quorum import resolve_quorum
from pulsar_operator.domain.render.reserved import CONFIG_FIELDS, RESERVED, RESERVED_PREFIXES

ROOT = Path(__file__).resolve().parents[1]

NOT_SUMMED = (Component.CONFIGURATION_STORE, Component.STANDALONE)
"""Components most clusters do not have."""
MARKED = re.compile(r"(<!-- generated: (?P<name>[a-z-]+) -->\n).*?(<!-- /generated -->)", re.DOTALL)


def presets() -> str:
    """Memory and CPU of each component in each preset, with what one pod of each needs in all."""
    parts = []
    for preset in Preset:
        values = preset_values(preset)
        rows, requested, allowed = [], 0, 0
        for component, size in values.sizing.items():
            resources = container_resources(component, preset, None, None)
            request, limit = resources["requests"]["memory"], resources["limits"]["memory"]
            direct = f"{size.direct}m" if size.direct else "as heap"
            rows.append([component.value, f"{size.heap}m", direct, request, limit, size.cpu])
            if component not in NOT_SUMMED:
                requested += int(request.removesuffix("Mi"))
                allowed += int(limit.removesuffix("Mi"))
        rows.append(
            [f"*one of each but {NOT_SUMMED[0]} and {NOT_SUMMED[1]}*", "", "", f"{requested}Mi", f"{allowed}Mi", ""]
        )
        head = ["component", "heap", "direct memory", "memory request", "memory limit", "CPU request"]
        parts.append(f"Preset `{preset.value}`, JVM options `{' '.join(values.collector)}`:\n\n{table(head, rows)}")
    return "\n".join(parts)


def quorums() -> str:
    """Default quorums by number of bookies."""
    rows = []
    for bookies, label in ((1, "1"), (2, "2"), (3, "3"), (4, "4 or more")):
        found = resolve_quorum(Ensemble(), bookies)
        rows.append([label, str(found.ensemble_size), str(found.write_quorum), str(found.ack_quorum)])
    return table(["bookies", "ensembleSize", "writeQuorum", "ackQuorum"], rows)


def reserved_keys() -> str:
    """Reserved configuration keys, grouped by reason and by the fields they are refused in."""
    fields: dict[tuple[str, str], list[str]] = {}
    for component, field in CONFIG_FIELDS.items():
        if component in (Component.AUTORECOVERY, Component.CONFIGURATION_STORE):
            continue  # the same keys as the bookies, the same as ZooKeeper
        keys = dict(RESERVED.get(component, {}))
        keys |= {f"{prefix}*": why for prefix, why in RESERVED_PREFIXES.get(component, {}).items()}
        for key, why in keys.items():
            fields.setdefault((why, key), []).append(field.removeprefix("spec.").removesuffix(".config"))
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (why, key), where in fields.items():
        groups.setdefault((why, tuple(where)), []).append(key)
    rows = [
        [", ".join(f"`{field}`" for field in where), why, ", ".join(f"`{key}`" for key in sorted(keys))]
        for (why, where), keys in sorted(groups.items(), key=lambda item: (item[0][1], item[0][0]))
    ]
    return table(["in `config` of", "why, and what to use", "keys"], rows)


def metrics() -> str:
    """The operator's own metrics; each is used once, so that its labels are known."""
    found = PrometheusMetrics(lambda: 0.0)
    found.reconciled("PulsarTopic", "error", 0.0)
    found.queue_depth(0)
    found.admin_call("c", "GET", "200", 0.0)
    found.kube_write("apply", "Service")
    found.event_received("PulsarTopic")
    found.watch_restarted("PulsarTopic", "expired")
    found.count_objects(lambda: {("PulsarTopic", "Ready"): 1})
    found.count_streams(lambda: {("PulsarTopic", "watching"): 1})
    rows = []
    for family in found.registry.collect():
        if family.name.startswith("pulsar_operator_"):
            labels = {name for sample in family.samples for name in sample.labels} - {"le"}
            name = f"{family.name}_total" if family.type == "counter" else family.name
            named = ", ".join(f"`{label}`" for label in sorted(labels))
            rows.append([f"`{name}`", family.type, named, family.documentation])
    return table(["name", "type", "labels", "meaning"], rows)


def waiting() -> str:
    """What ends a state that is not Ready, by the reason of Ready, and what tools that wait make of it."""
    later = f"after {STALLED_SECONDS:g} s"
    kinds = (
        (Healing.CHANGE, "a change of the object, or of what it found", "True", "Failed", "Degraded"),
        (Healing.CONSENT, "a person's word", "True", "Failed", "Suspended"),
        (Healing.OTHERS, "something outside the object", f"True {later}", "Failed", "Degraded"),
        (Healing.ITSELF, "time", "absent", "InProgress", "Progressing"),
    )
    rows = [
        [
            text,
            _reasons(kind),
            stalled,
            f"`{kstatus}`{_until(kind, 'InProgress')}",
            f"`{argo}`{_until(kind, 'Progressing')}",
        ]
        for kind, text, stalled, kstatus, argo in kinds
    ]
    return table(["what ends it", "reasons of `Ready`", "`Stalled`", "kstatus", "Argo CD"], rows)


def _reasons(kind: Healing) -> str:
    if kind is Healing.ITSELF:
        return "all others"
    return ", ".join(f"`{reason}`" for reason in sorted(SETS[kind]))


def _until(kind: Healing, before: str) -> str:
    """What is said until then."""
    return f", until then `{before}`" if kind is Healing.OTHERS else ""


def rights() -> str:
    """The table of rights in a watched namespace, from the chart's own page."""
    text = (ROOT / "helm/pulsar-operator/README.md").read_text(encoding="utf-8")
    section = text.split("\n## RBAC\n", 1)[1]
    lines = section.split("| API group", 1)[1].split("\n\n", 1)[0]
    return f"| API group{lines}\n"


def concepts() -> str:
    """Every concept with its fields, who makes it true, and what proves it."""
    proofs: dict[str, list[Check]] = {}
    for found in all_checks():
        for key in found.concepts:
            proofs.setdefault(key, []).append(found)
    head = ["concept", "declared in", "who makes it true", "proved by", "open"]
    parts = []
    for letter, title in SECTIONS.items():
        rows = [_concept(row, proofs.get(row.key, [])) for row in CONCEPTS if row.key.startswith(f"{letter}.")]
        parts.append(f"### {letter}. {title}\n\n{table(head, rows)}")
    return "\n" + "\n".join(parts)


def _concept(row: Concept, checks: Sequence[Check]) -> list[str]:
    """One row; a slot is in italics, since it proves nothing yet."""
    proofs = [f"*{found.id}*" if is_slot(found) else f"`{found.id}`" for found in checks]
    if row.other_proof:
        file, *_, name = row.other_proof.split("::")
        proofs.append(f"[{name}](../{file})")
    fields = _fields(row) or ("" if row.open else "nothing to declare")
    return [f"{row.text} (`{row.key}`)", fields, row.enforced, ", ".join(proofs), row.open]


def _fields(row: Concept) -> str:
    """Fields by the kinds that have them."""
    kinds: dict[str, list[str]] = {}
    for field in row.fields:
        kind, path = field.split(": ")
        kinds.setdefault(path, []).append(kind)
    groups: dict[tuple[str, ...], list[str]] = {}
    for path, names in kinds.items():
        groups.setdefault(tuple(names), []).append(f"`{path}`")
    return "; ".join(f"{', '.join(names)}: {', '.join(paths)}" for names, paths in groups.items())


def settings() -> str:
    """Checks of the conformance suite that run with other settings than Pulsar's defaults, by setting."""
    groups: dict[str, list[str]] = {}
    for name, needs in {**INTERVALS, **CONFIGURED}.items():
        lines = "<br>".join(f"`{setting}={value}`" for setting, value in needs.items())
        groups.setdefault(lines, []).append(f"`{name}*`" if name.endswith(".") else f"`{name}`")
    return table(["setting of brokers", "checks"], ([lines, ", ".join(found)] for lines, found in groups.items()))


def skips() -> str:
    """What the quickstart's cluster skips, by reason."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, skip in EXPECTED_SKIPS.items():
        file, _, function = skip.elsewhere.partition("::")
        proof = f"[{function}](../{file})" if file else "not yet"
        groups.setdefault((skip.why, proof), []).append(f"`{name}`")
    return table(["since", "skipped", "proved by"], ([why, ", ".join(ids), by] for (why, by), ids in groups.items()))


def tested_versions() -> str:
    """What the tests run with."""
    found = tomllib.loads((ROOT / "versions.toml").read_text(encoding="utf-8"))
    kubernetes, pulsar, helm, python = (found[name] for name in ("kubernetes", "pulsar", "helm", "python"))
    return table(
        ["", "tested with", "besides"],
        [
            ["Kubernetes", kubernetes["tested"], f"the charts install from {kubernetes['minimum']} on"],
            ["Apache Pulsar", pulsar["tested"], f"policies that only a newer one has: {pulsar['newer']}, one process"],
            ["Helm", helm["tested"], f"from {helm['minimum']} on"],
            ["Python, of the operator's image", python["tested"], "no older one"],
        ],
    )


def newcomer() -> str:
    """What `make newcomer` took when it was last recorded."""
    with (ROOT / "docs/newcomer.csv").open(encoding="utf-8", newline="") as file:
        found = [(row["step"], float(row["seconds"])) for row in csv.DictReader(file)]
    rows = [[step if " " not in step or "README" not in step else _command(step), f"{s / 60:.1f}"] for step, s in found]
    return table(["step", "minutes"], [*rows, ["**all**", f"{sum(s for _, s in found) / 60:.1f}"]])


def _command(step: str) -> str:
    place, _, command = step.partition(" ")
    return f"[{place}](../README.md): `{command}`"


PARTS: dict[str, Callable[[], str]] = {
    "newcomer": newcomer,
    "tested-versions": tested_versions,
    "concepts": concepts,
    "conformance-settings": settings,
    "conformance-skips": skips,
    "presets": presets,
    "quorums": quorums,
    "reserved-keys": reserved_keys,
    "policies": gen_policies.policies,
    "topic-policies": gen_policies.topic_policies,
    "lists": gen_policies.lists,
    "unmanaged-policies": gen_policies.unmanaged_policies,
    "metrics": metrics,
    "waiting": waiting,
    "rights": rights,
}


def current(text: str) -> str:
    """A page with its generated parts as they must be. Raises KeyError for an unknown part."""
    return MARKED.sub(lambda match: f"{match[1]}{PARTS[match['name']]()}{match[3]}", text)


def reference(*, write: bool) -> list[str]:
    """Pages of docs/reference/ that are not current, or are of no kind any more; written and removed if asked."""
    folder = ROOT / "docs/reference"
    expected = gen_reference.pages(gen_policies.notes())
    stale = [name for name, text in expected.items() if not _is(folder / name, text)]
    gone = [file for file in folder.glob("*.md") if file.name not in expected]
    if write:
        folder.mkdir(exist_ok=True)
        for name in stale:
            (folder / name).write_text(expected[name], encoding="utf-8")
        for file in gone:
            file.unlink()
    return [f"docs/reference/{name}" for name in (*stale, *(file.name for file in gone))]


def _is(file: Path, text: str) -> bool:
    return file.is_file() and file.read_text(encoding="utf-8") == text


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; 1 when --check finds a page that is not current."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail when a page is not current")
    options = parser.parse_args(argv)
    stale = reference(write=not options.check)
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        expected = current(text)
        if expected != text:
            stale.append(str(page.relative_to(ROOT)))
            if not options.check:
                page.write_text(expected, encoding="utf-8")
    if options.check and stale:
        print(f"not current: {', '.join(stale)}; run: python scripts/gen_docs.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
