"""Entry point when python3 is given this folder."""

import sys
from pathlib import Path

# Given a folder, python puts the folder itself first on the path, where a module of ours could hide one of the
# standard library. The parent goes there instead, so everything is imported as `pulsar_start.<module>`.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from pulsar_start.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
