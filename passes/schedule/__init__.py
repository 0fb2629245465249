"""Passes on schedules: the ``sched`` dialect, and the lowering to it."""
