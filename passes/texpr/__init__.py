"""Passes on tensor expressions: the ``te`` dialect."""
