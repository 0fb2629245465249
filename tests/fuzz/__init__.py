"""Random µGraphs, and what must hold of each of them at every stage of compilation.

``python -m fuzz --help``, with ``tests`` on ``PYTHONPATH``; or ``make fuzz N=1000 SEED=1``.
"""
