"""What build systems read: a CMake package and a pkg-config file."""

from __future__ import annotations

from mugraph.codegen.c_abi.interface import CInterface


def print_cmake_package(interface: CInterface, *, uses_cublas: bool) -> str:
    """``NAME-config.cmake``, which lies in ``lib/cmake/NAME`` of the folder it describes.

    It defines the targets ``NAME::NAME`` (the shared library, which needs the driver only) and
    ``NAME::static``.
    """
    name = interface.name
    nccl = ["nccl"] if interface.communicators else []
    libraries = [
        "CUDA::cudart",
        *(["CUDA::cublas", "CUDA::cublasLt"] if uses_cublas else []),
        *nccl,
        "stdc++",
    ]
    needed = '\n    INTERFACE_LINK_LIBRARIES "nccl"' if nccl else ""
    return f"""\
# {name}::{name} is the shared library, {name}::static the static one.
include(CMakeFindDependencyMacro)
get_filename_component({name}_root "${{CMAKE_CURRENT_LIST_DIR}}/../../.." ABSOLUTE)

if(NOT TARGET {name}::{name})
  add_library({name}::{name} SHARED IMPORTED)
  set_target_properties({name}::{name} PROPERTIES
    IMPORTED_LOCATION "${{{name}_root}}/lib/lib{name}.so"
    IMPORTED_SONAME "lib{name}.so"
    INTERFACE_INCLUDE_DIRECTORIES "${{{name}_root}}/include"{needed})
endif()

# Those who link it statically link CUDA's runtime too.
find_package(CUDAToolkit QUIET)
if(CUDAToolkit_FOUND AND NOT TARGET {name}::static)
  add_library({name}::static STATIC IMPORTED)
  set_target_properties({name}::static PROPERTIES
    IMPORTED_LOCATION "${{{name}_root}}/lib/lib{name}.a"
    INTERFACE_INCLUDE_DIRECTORIES "${{{name}_root}}/include"
    INTERFACE_LINK_LIBRARIES "{";".join(libraries)}")
endif()
"""


def print_pkg_config(interface: CInterface, version: str, *, uses_cublas: bool) -> str:
    """``NAME.pc``, which lies in ``lib/pkgconfig`` of the folder it describes."""
    name = interface.name
    nccl = ["-lnccl"] if interface.communicators else []
    private = " ".join(
        ["-lcudart", *(["-lcublas", "-lcublasLt"] if uses_cublas else []), *nccl, "-lstdc++"]
    )
    needed = "".join(f" {each}" for each in nccl)
    return f"""\
prefix=${{pcfiledir}}/../..
libdir=${{prefix}}/lib
includedir=${{prefix}}/include

Name: {name}
Description: {name}, a µGraph compiled ahead of time by mugraph
Version: {version}
Cflags: -I${{includedir}}
Libs: -L${{libdir}} -l{name}{needed}
Libs.private: {private}
"""
