"""Command-line tools.

Nearly all that a tool makes it keeps to its end, the modules that it imports first of all: looking
for garbage seldom is enough.
"""

import gc

ALLOCATIONS_PER_COLLECTION = 200_000

gc.set_threshold(ALLOCATIONS_PER_COLLECTION)
