"""Cases for the admission rules of maintenance windows and the other settings of rolls; see rules.py."""

from __future__ import annotations

from typing import Any

from tests.support.admission.rules import PATTERN, PC, STANDALONE, Create, Json

MINIMUM = "spec.bookkeeper.racks.minimum must not exceed spec.bookkeeper.replicas"
FEWER = "spec.bookkeeper.racks.byOrdinal must have at least racks.minimum racks"
EITHER = "exactly one of topologyKey and byOrdinal must be set in spec.bookkeeper.racks"
DEFAULT = "spec.bookkeeper.racks.byOrdinal must not contain default-rack"
LOST = (
    "bookie must be set with action LoseLedgers and with no other action. Set it to the ordinal of the bookie whose "
    "ledgers are given up"
)
ZONE = "timeZone must be a name of the IANA time zone database"


def _windows(*windows: Json) -> Json:
    return {"maintenanceWindows": list(windows)}


def _confirmed(action: str, **fields: Any) -> Json:
    return {"confirmations": [{"action": action, "expiresTime": "2026-12-01T18:00:00Z"} | fields]}


def _racks(replicas: int = 3, **fields: Any) -> Json:
    return {"bookkeeper": {"replicas": replicas, "racks": fields}}


ROW = {"topologyKey": "example.com/row"}
A_AND_B = {"byOrdinal": ["a", "b"]}


def _window(**fields: Any) -> Json:
    return _windows({"schedule": "0 2 * * 6", "minutes": 60} | fields)


ROLLING_CREATES: tuple[Create, ...] = (
    Create(PC, "window", _window(timeZone="Europe/Berlin")),
    Create(PC, "window-standalone", STANDALONE | _window(schedule="*/15 0-5,22 1 * 1-7/2")),
    *(
        Create(PC, f"window-zone-{zone.replace('/', '-')}", _window(timeZone=zone))
        for zone in ("UTC", "Etc/GMT+5", "EST5EDT", "America/Argentina/Buenos_Aires", "US/Eastern", "Etc/GMT-14")
    ),
    *(
        Create(PC, f"window-zone-{n}", _window(timeZone=zone), ZONE)
        for n, zone in enumerate(("Europe/Berln", "Local", "europe", "CEST"))
    ),
    *(
        Create(PC, f"window-zone-{n}", _window(timeZone=zone), PATTERN)
        for n, zone in enumerate(
            ("+01:00", "01:00", "../etc/passwd", "/UTC", "Europe/", "Europe/Berlin ", "a/b/c/d"), 4
        )
    ),
    Create(PC, "window-zone-empty", _window(timeZone=""), "at least 1 chars long"),
    Create(PC, "window-of-four-fields", _window(schedule="0 2 * *"), PATTERN),
    Create(PC, "window-of-words", _window(schedule="0 2 * * SAT"), PATTERN),
    Create(PC, "window-weekly", _window(schedule="@weekly"), PATTERN),
    Create(PC, "window-schedule-of-101", _window(schedule="0 2 * * " + ",".join("6" * 47)), "may not be more than 100"),
    Create(PC, "window-without-schedule", _windows({"minutes": 60}), "schedule: Required value"),
    Create(PC, "window-without-minutes", _windows({"schedule": "0 2 * * 6"}), "minutes: Required value"),
    Create(PC, "window-minutes-0", _window(minutes=0), "greater than or equal to 1"),
    Create(PC, "window-minutes-1", _window(minutes=1)),
    Create(PC, "window-of-a-week", _window(minutes=10080)),
    Create(PC, "window-over-a-week", _window(minutes=10081), "less than or equal to 10080"),
    Create(PC, "window-unknown-field", _window(hours=2), 'unknown field "spec.maintenanceWindows[0].hours"'),
    Create(PC, "windows-16", _windows(*({"schedule": f"0 {n} * * *", "minutes": 60} for n in range(16)))),
    Create(PC, "windows-17", _windows(*({"schedule": f"0 {n} * * *", "minutes": 60} for n in range(17))), "at most 16"),
    Create(PC, "deadline-60", {"progressDeadlineSeconds": 60}),
    Create(PC, "deadline-59", {"progressDeadlineSeconds": 59}, "greater than or equal to 60"),
    Create(PC, "deadline-86400", {"progressDeadlineSeconds": 86400}),
    Create(PC, "deadline-86401", {"progressDeadlineSeconds": 86401}, "less than or equal to 86400"),
    Create(PC, "upgrade", {"upgrade": {}}),
    Create(PC, "canary-0", {"upgrade": {"canary": {"minutes": 0}}}),
    Create(PC, "canary-1440", {"upgrade": {"canary": {"minutes": 1440}}}),
    Create(PC, "canary-1441", {"upgrade": {"canary": {"minutes": 1441}}}, "less than or equal to 1440"),
    Create(PC, "canary-negative", {"upgrade": {"canary": {"minutes": -1}}}, "greater than or equal to 0"),
    Create(PC, "canary-without-minutes", {"upgrade": {"canary": {}}}, "minutes: Required value"),
    Create(PC, "confirmed-roll", _confirmed("RollUnderReplicated")),
    Create(PC, "confirmed-roll-of-a-bookie", _confirmed("RollUnderReplicated", bookie=0), LOST),
    Create(PC, "confirmed-loss", _confirmed("LoseLedgers", bookie=0)),
    Create(PC, "confirmed-loss-standalone", STANDALONE | _confirmed("LoseLedgers", bookie=0)),
    Create(PC, "confirmed-loss-of-no-bookie", _confirmed("LoseLedgers"), LOST),
    Create(PC, "confirmed-loss-of-bookie-512", _confirmed("LoseLedgers", bookie=512), "less than or equal to 511"),
    Create(PC, "confirmed-loss-by-name", _confirmed("LoseLedgers", bookie=0, answers="2026-05-01T22:30:00Z/3")),
    Create(PC, "confirmed-roll-of-no-name", _confirmed("RollUnderReplicated", answers=""), "at least 1 chars long"),
    Create(PC, "confirmed-roll-of-a-long-name", _confirmed("RollUnderReplicated", answers="x" * 193), "more than 192"),
    Create(PC, "confirmed-roll-of-two-words", _confirmed("RollUnderReplicated", answers="a b"), "should match"),
    Create(PC, "confirmed-adoption", _confirmed("AdoptMetadata", answers="734bf28c")),
    Create(
        PC,
        "confirmed-adoption-of-anything",
        _confirmed("AdoptMetadata"),
        "answers must be set with action AdoptMetadata. Set it to the instance id",
    ),
    Create(PC, "confirmed-adoption-of-a-bookie", _confirmed("AdoptMetadata", answers="a", bookie=0), LOST),
    Create(PC, "confirmed-loss-without-end", {"confirmations": [{"action": "LoseLedgers", "bookie": 0}]}, "Required"),
    Create(PC, "racks-by-label", _racks(**ROW)),
    Create(PC, "racks-by-ordinal", _racks(**A_AND_B)),
    Create(PC, "racks-neither", _racks(), EITHER),
    Create(PC, "racks-both", _racks(**ROW, **A_AND_B), EITHER),
    Create(PC, "racks-minimum-alone", _racks(minimum=3), EITHER),
    Create(PC, "racks-default", _racks(byOrdinal=["a", "default-rack"]), DEFAULT),
    Create(PC, "racks-slash", _racks(byOrdinal=["a/b"]), PATTERN),
    Create(PC, "racks-slash-in-front", _racks(byOrdinal=["/a"]), PATTERN),
    Create(PC, "racks-empty-name", _racks(byOrdinal=[""]), "at least 1 chars long"),
    Create(PC, "racks-none", _racks(byOrdinal=[]), "at least 1 items"),
    Create(PC, "racks-twice", _racks(byOrdinal=["a", "a"]), "Duplicate value"),
    Create(PC, "racks-65", _racks(byOrdinal=[f"r{n}" for n in range(65)]), "at most 64"),
    Create(PC, "racks-label-of-two-slashes", _racks(topologyKey="a/b/c"), PATTERN),
    Create(PC, "racks-label-empty", _racks(topologyKey=""), "at least 1 chars long"),
    Create(PC, "racks-minimum-0", _racks(**ROW, minimum=0), "greater than or equal to 1"),
    Create(PC, "racks-enforced", _racks(**A_AND_B, enforceMinimum=True)),
    Create(PC, "racks-enforced-of-three", _racks(3, **ROW, minimum=3, enforceMinimum=True)),
    Create(PC, "racks-enforced-over-replicas", _racks(2, **ROW, minimum=3, enforceMinimum=True), MINIMUM),
    Create(PC, "racks-over-replicas", _racks(2, **ROW, minimum=3)),
    Create(PC, "racks-enforced-over-names", _racks(**A_AND_B, minimum=3, enforceMinimum=True), FEWER),
    Create(PC, "racks-over-names", _racks(**A_AND_B, minimum=3)),
    Create(PC, "confirmed-deed-unknown", _confirmed("DropAll"), "Unsupported value"),
)
