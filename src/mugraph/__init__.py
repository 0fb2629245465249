"""mugraph: from tensor programs written as µGraphs to CUDA kernels, as xDSL passes.

The sub-packages are folders of the repository: ``mugraph.dialects`` (``mugraph_dialects/``),
``mugraph.passes``, ``mugraph.codegen``, ``mugraph.runtime``, ``mugraph.tools``, and of
``frontend/`` ``mugraph.build`` and ``mugraph.jit``.  This module imports none of them until
``mugraph.compile`` or another name of this module is used, so that
``import mugraph.dialects.cute`` stays cheap.
"""

from typing import TYPE_CHECKING

from mugraph.version import __version__ as __version__
from mugraph.when_used import imported_when_used

if TYPE_CHECKING:
    from mugraph.dialects.plan import Plan
    from mugraph.jit import compile, compile_all, load

__all__ = ["Plan", "compile", "compile_all", "load"]

__getattr__ = imported_when_used(
    __name__,
    {"Plan": "dialects.plan", **dict.fromkeys(("compile", "compile_all", "load"), "jit")},
)
