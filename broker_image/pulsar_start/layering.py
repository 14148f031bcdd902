"""Lays overrides over a stock properties file. Pure: text and mappings in, text out.

Keys are replaced in place, comments and order of the stock file stay, and every key ends up in the file exactly
once: BookKeeper keeps the first of two equal keys, Pulsar the last, so a second one must never be left.
Values are written as they are, in the syntax of Java properties files, as users know it from Pulsar's own.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from pulsar_start.errors import StartError
from pulsar_start.paths import FOLDERS

ENVIRONMENT_PREFIX = "PULSAR_CONF_"
OWN_PREFIXES = (ENVIRONMENT_PREFIX, "ZOO_", "POD_", "PULSAR_OPERATOR_")
OWN_VARIABLES = "PULSAR_OPERATOR_VARIABLES"
"""Names of the variables the operator set, where others come from whole Secrets or ConfigMaps, which it cannot read."""

_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")
_ASSIGNMENT = re.compile(r"\s*(?P<key>[^\s=:#!]+)\s*(?:[=:]\s*|\s|$)")
_SECRET = re.compile(
    r"password|passwd|passphrase|secret|token|auth(entication)?_?param|credential|superdigest|private", re.IGNORECASE
)
HIDDEN = "***"


def parse_overrides(text: str, source: str) -> dict[str, str]:
    """key=value lines; blank lines and lines that start with # are skipped; of two equal keys the last counts."""
    overrides: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        key, separator, value = stripped.partition("=")
        if not separator:
            raise StartError(f"{source} line {number}: not of the form key=value")
        overrides[key.strip()] = value.strip()
    check(overrides, source)
    return overrides


def overrides_of_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Values of this one pod: PULSAR_CONF_<key>=<value>."""
    overrides = {
        name.removeprefix(ENVIRONMENT_PREFIX): value.strip()
        for name, value in sorted(environ.items())
        if name.startswith(ENVIRONMENT_PREFIX)
    }
    check(overrides, "environment")
    return overrides


def check_variables(environ: Mapping[str, str]) -> None:
    """Refuses variables of this program that the operator did not set: a folder of data elsewhere is data lost with the
    pod. Raises StartError with their names."""
    if OWN_VARIABLES not in environ:
        return
    own = {OWN_VARIABLES, *environ[OWN_VARIABLES].split(",")}
    others = sorted(name for name in environ if _is_own(name) and name not in own)
    if others:
        raise StartError(
            f"environment: {', '.join(others)} cannot come from envFrom: take them out of the Secret or ConfigMap, or "
            "set its prefix; settings of Pulsar belong into config"
        )


def _is_own(name: str) -> bool:
    return name.startswith(OWN_PREFIXES) or name in FOLDERS


def check(overrides: Mapping[str, str], source: str) -> None:
    """Refuses what would not stay one line of the file."""
    for key, value in overrides.items():
        if not _KEY.fullmatch(key):
            raise StartError(f"{source}: {key!r} is not a configuration key")
        if any(character in value for character in "\n\r\f\0"):
            raise StartError(f"{source}: the value of {key} contains a line break")
        if _continues(value):
            raise StartError(f"{source}: the value of {key} ends with a backslash, which would swallow the next line")


def layer(stock: str, overrides: Mapping[str, str]) -> str:
    """The stock file with every override in it exactly once, and no key twice."""
    check(overrides, "overrides")
    lines: list[str] = []
    written: set[str] = set()
    for line in _logical_lines(stock):
        key = key_of(line)
        if key is None:
            lines.append(line)
        elif key not in written:
            written.add(key)
            lines.append(_assignment(key, overrides[key]) if key in overrides else line)
    lines += [_assignment(key, value) for key, value in overrides.items() if key not in written]
    return "\n".join(lines) + "\n"


def parse(text: str) -> list[tuple[str, str]]:
    """Every assignment of a properties file in order, duplicates included."""
    return [(key, _value_of(line)) for line in _logical_lines(text) if (key := key_of(line)) is not None]


def key_of(line: str) -> str | None:
    """The key a line assigns, None for a comment or a blank line."""
    match = _ASSIGNMENT.match(line)
    return match["key"] if match else None


def describe(overrides: Mapping[str, str]) -> Iterator[str]:
    """One line a key for the log, secrets hidden."""
    for key, value in sorted(overrides.items()):
        yield f"{key}={HIDDEN if is_secret(key) and value else value}"


def is_secret(key: str) -> bool:
    """Whether the value of a key of this name must not be printed."""
    return _SECRET.search(key) is not None


def describe_arguments(arguments: Iterable[str]) -> str:
    """JVM arguments for the log, the values of secret ones hidden."""
    shown = []
    for argument in arguments:
        name, separator, _ = argument.partition("=")
        shown.append(f"{name}={HIDDEN}" if separator and is_secret(name) else argument)
    return " ".join(shown)


def _assignment(key: str, value: str) -> str:
    # Java reads properties files as ISO 8859-1; anything else travels as \uXXXX.
    return f"{key}=" + "".join(character if " " <= character <= "~" else _escape(character) for character in value)


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def _value_of(line: str) -> str:
    match = _ASSIGNMENT.match(line)
    return line[match.end() :] if match else ""


def _logical_lines(text: str) -> Iterator[str]:
    """Lines with those that continue them, because replacing a key replaces its continuation too."""
    pending = ""
    for line in text.removesuffix("\n").split("\n"):
        pending = f"{pending}\n{line}" if pending else line
        if key_of(pending) is not None and _continues(line):
            continue
        yield pending
        pending = ""
    if pending:
        # Java ignores a backslash at the very end; left there, it would swallow what is appended.
        yield pending.removesuffix("\\")


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1
