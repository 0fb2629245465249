"""Writes ``kn`` and ``tb`` as Mirage's µGraph JSON, of any of its three generations.

What a µGraph needs and the format has no place for (the scalar of a ``mul_scalar``, the bounds of a
``clamp``) is written as further fields, which ``mg-translate --import-mirage`` reads back and
Mirage ignores.  What would change the function if it were left out, and has no such field, is an
error that names the operator.  Format: Mirage's ``src/kernel/graph.cc``.
"""

from mugraph.tools.export_mirage.exporter import export_mirage, write_mirage
from mugraph.tools.export_mirage.records import MirageExportError

__all__ = ["MirageExportError", "export_mirage", "write_mirage"]
