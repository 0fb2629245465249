"""Tables of µGraphs that every operator, type, layout and map is tested with.

``python -m cases --help``, with ``tests`` on ``PYTHONPATH``; ``docs/testing.md`` says what runs where.
"""
