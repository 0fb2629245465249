"""Execution of ``kn``, ``tb`` and ``sched`` on numpy."""
