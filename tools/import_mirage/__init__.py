"""Reads Mirage's µGraph JSON, of any of its three generations, into ``kn`` and ``tb``.

Nothing is guessed: what the format does not hold (the scalar of a ``mul_scalar``), what mugraph has
no operator for, and what contradicts itself is an error that names the operator and the field.
Format: Mirage's ``src/kernel/graph.cc``.
"""

from mugraph.tools.import_mirage.document import MirageImportError
from mugraph.tools.import_mirage.importer import graphs_of, import_mirage

__all__ = ["MirageImportError", "graphs_of", "import_mirage"]
