"""mugraph: from tensor programs written as µGraphs to CUDA kernels, as xDSL passes.

The sub-packages are the top-level folders of the repository:
``mugraph.dialects`` (``mugraph_dialects/``), ``mugraph.passes``, ``mugraph.codegen``,
``mugraph.runtime`` and ``mugraph.tools``.  This module imports none of them, so that
``import mugraph.dialects.cute`` stays cheap.
"""

__version__ = "0.1.0"
