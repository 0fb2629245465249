"""The schedules of the tests of the interpreter serve here, too."""

import sys
from pathlib import Path

UNIT = Path(__file__).parents[1] / "unit"
sys.path[:0] = [str(UNIT / "interpreter"), str(UNIT)]
