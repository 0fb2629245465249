"""mugraph: from tensor programs written as µGraphs to CUDA kernels, as xDSL passes.

The sub-packages are folders of the repository: ``mugraph.dialects`` (``mugraph_dialects/``),
``mugraph.passes``, ``mugraph.codegen``, ``mugraph.runtime``, ``mugraph.tools``, and of
``frontend/`` ``mugraph.build`` and ``mugraph.jit``.  This module imports none of them until
``mugraph.compile`` or another name of this module is used, so that
``import mugraph.dialects.cute`` stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mugraph.version import __version__ as __version__

if TYPE_CHECKING:
    from mugraph.dialects.plan import Plan
    from mugraph.jit import compile, compile_all, load

__all__ = ["Plan", "compile", "compile_all", "load"]

_HOMES = {
    "Plan": "mugraph.dialects.plan",
    "compile": "mugraph.jit",
    "compile_all": "mugraph.jit",
    "load": "mugraph.jit",
}
"""The module of each name, imported when the name is first used."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'mugraph' has no attribute '{name}'")
