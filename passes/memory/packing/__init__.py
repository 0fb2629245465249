"""Placing buffers in one memory: which bytes each takes while it lives."""
