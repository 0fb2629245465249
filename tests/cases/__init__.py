"""Tables of µGraphs that every operator, type, layout and map is tested with.

``python -m cases --help``, with ``tests`` on ``PYTHONPATH``; what runs where is in
``docs/testing.md``.
"""
