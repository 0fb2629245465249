"""Passes on µGraphs: ``kn.customized`` with its ``tb`` body."""
