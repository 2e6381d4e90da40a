"""Classes of every kind are generated as for the codecs."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "events"))
