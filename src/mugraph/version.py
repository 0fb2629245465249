"""The version of mugraph, which the distribution takes from here."""

__version__ = "0.1.0"
