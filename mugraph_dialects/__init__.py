"""The µGraph dialects: ``kn``, ``tb``, ``sched`` and the layout algebra ``cute``."""
