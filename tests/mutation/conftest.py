"""The schedule written by hand for the tests of the interpreter serves here, too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "interpreter"))
