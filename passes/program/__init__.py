"""Passes on programs: the ``kn`` dialect."""
