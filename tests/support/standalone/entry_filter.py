"""Real entry filters for a broker: compiled against the distribution's jars and packed as the NAR brokers load.

Format: class NarClassLoader (classes below the root of the archive) and class EntryFilterProvider (the definition in
META-INF/services/entry_filter.yml) of Pulsar 4.0.
"""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

from e2e.kind.prereq import find_program

SOURCE = Path(__file__).parent / "java" / "SkipFilter.java"
CLASS = "io.pulsaroperator.entryfilter.SkipFilter"
FILTERS = ("skip", "skip-too")
"""Their names."""
PROPERTY = {"skip": "yes"}
"""Messages with it are not delivered."""
DEFINITION = "META-INF/services/entry_filter.yml"


def with_entry_filters(home: Path, folder: Path) -> dict[str, str]:
    """Build the filters below ``folder``; the broker settings that load them from there.

    ``home`` is the unpacked distribution. Raises FileNotFoundError without a Java compiler, RuntimeError when it fails.
    """
    filters, classes, unpacked = (folder / each for each in ("filters", "classes", "unpacked"))
    for place in (filters, classes, unpacked):
        place.mkdir(parents=True)
    _compile(home, classes)
    for name in FILTERS:
        with zipfile.ZipFile(filters / f"{name}.nar", "w") as nar:
            nar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
            nar.writestr("META-INF/bundled-dependencies/", "")
            nar.writestr(DEFINITION, f"name: {name}\ndescription: rejects skip=yes\nentryFilterClass: {CLASS}\n")
            for file in sorted(classes.rglob("*.class")):
                nar.write(file, file.relative_to(classes))
    return {
        "entryFiltersDirectory": str(filters),
        "allowOverrideEntryFilters": "true",
        "narExtractionDirectory": str(unpacked),
    }


def _compile(home: Path, target: Path) -> None:
    compiler = find_program("javac")
    if compiler is None:
        raise FileNotFoundError("javac is not there; python -m e2e.kind tools installs it, or says how")
    arguments = ["-proc:none", "-classpath", f"{home}/lib/*", "-d", str(target), str(SOURCE)]
    done = subprocess.run([compiler, *arguments], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"javac {SOURCE.name}: exit status {done.returncode}\n{done.stderr}")
