"""Shapes that are drawn, not chosen: layers of public models at sizes that a seed says."""
