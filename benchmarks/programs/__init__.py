"""Plain programs, of which ``--fuse-kernels`` makes kernels: how fast, and how fast these are."""

from benchmarks.programs import known, others
from benchmarks.programs.families import FAMILIES, Program

PROGRAMS: dict[str, Program] = {
    program.name: program for family in FAMILIES for program in family.programs()
}
"""Every program at every size, by its name."""

__all__ = ["FAMILIES", "PROGRAMS", "known", "others"]
