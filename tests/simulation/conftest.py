"""The simulation is judged by the checker of the fault runs, and uses their disk and events."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "proof"))
