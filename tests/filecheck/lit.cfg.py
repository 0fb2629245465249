"""How lit runs the FileCheck tests: with the tools of the Python that runs lit, and no others."""

import os
import sys
from typing import Any

sys.path.insert(0, os.path.dirname(__file__))
from warm_tools import WarmShTest

config: Any = globals()["config"]

config.name = "mugraph"
config.test_format = WarmShTest()
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(os.path.dirname(__file__), "Output")

binaries = os.path.dirname(sys.executable)
config.environment["PATH"] = os.pathsep.join((binaries, config.environment["PATH"]))
# A test must not see the user's caches or headers.
for variable in ("MUGRAPH_CUTLASS_INCLUDE", "MUGRAPH_TRACEBACK"):
    config.environment.pop(variable, None)

config.substitutions.append(("%python", sys.executable))
config.substitutions.append(("%status", os.path.join(config.test_source_root, "status")))
config.substitutions.append(("%examples", os.path.join(config.test_source_root, "../../examples")))
# The steps of --transpile without those that keep tiles in registers.
config.substitutions.append(
    (
        "%unpromoted",
        "--retile --online-softmax --insert-copies --decompose-threadblock --mask-ragged "
        "--fuse-threadblock --resolve-layout --plan-dtensor-memory --lower-threadblock "
        "--pipeline-loads --merge-products --pipeline-products --persist-blocks --bulk-stores "
        "--plan-swizzle --lower-rings --programmatic-launch "
        "--plan-stensor-memory --set-register-budgets --check-hazards",
    )
)
