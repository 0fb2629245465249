"""The C interface around a compiled µGraph: what C, C++, Rust and any other language can call.

:func:`interface_of` reads it off a planned function; :func:`print_header`, :func:`print_launcher`
and :func:`print_variant` print the files, :mod:`mugraph.codegen.c_abi.package` what build systems
read.  The rules of the interface stand in ``docs/ahead-of-time.md``.
"""

from mugraph.codegen.c_abi.devices import DevicesFunction, read_once
from mugraph.codegen.c_abi.header import print_header
from mugraph.codegen.c_abi.interface import (
    INTERFACE_VERSION,
    CCommunicator,
    CInterface,
    CTensor,
    interface_as_written,
    interface_of,
)
from mugraph.codegen.c_abi.launcher import print_launcher, print_single_file, print_variant
from mugraph.codegen.c_abi.package import print_cmake_package, print_pkg_config

__all__ = [
    "INTERFACE_VERSION",
    "CCommunicator",
    "CInterface",
    "CTensor",
    "DevicesFunction",
    "interface_as_written",
    "interface_of",
    "print_cmake_package",
    "print_header",
    "print_launcher",
    "print_pkg_config",
    "print_single_file",
    "print_variant",
    "read_once",
]
