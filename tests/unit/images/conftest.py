"""Makes the start program of the images importable: it is no part of the operator's package."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "broker_image"))
