"""Measurements of mugraph; run from the root of a checkout."""
