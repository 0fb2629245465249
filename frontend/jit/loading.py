"""From what ``mg-compile`` wrote to a kernel, on a machine that need not have a compiler."""

from __future__ import annotations

import ctypes
import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from mugraph.codegen.c_abi import INTERFACE_VERSION, CInterface, CTensor
from mugraph.dialects.named_extents import NamedExtent
from mugraph.errors import UserError
from mugraph.jit.cuda import CudaKernel
from mugraph.runtime.ahead_of_time import MANIFEST
from mugraph.runtime.toolchain import find_cublas


def load(folder: str | Path) -> CudaKernel:
    """The kernel in a folder that ``mg-compile`` wrote; it needs a GPU and its driver only.

    Raises ``UserError`` where the folder holds no such kernel, and ``DeviceError`` where the
    current device does not run it, with the compute capabilities that do.
    """
    folder = Path(folder)
    manifest = _manifest_of(folder)
    name: str = manifest["name"]
    if manifest.get("communicators") or manifest.get("peers"):
        takes = "one another's memory" if manifest["peers"] else "communicators of NCCL"
        raise UserError(
            f"{folder} holds the program of each of several devices, which takes {takes}; call its "
            "C function, or run the program by mugraph.compile(program, mesh=...)."
        )
    path = f"lib/lib{name}.so"
    library = folder / path
    try:
        digest = hashlib.sha256(library.read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"{library} cannot be read: {error.strerror}.") from error
    if digest != manifest["files_sha256"][path]:
        raise UserError(
            f"{library} is not the file that {MANIFEST} beside it describes; run mg-compile again, "
            "or copy its whole folder."
        )
    cublas = find_cublas() if manifest["uses_cublas"] else None
    if cublas is not None:
        # The dynamic loader does not look among Python's packages, but finds what is loaded.
        with suppress(OSError):
            ctypes.CDLL(str(cublas.library))
    inputs, outputs = (
        tuple(_tensor_of(entry) for entry in manifest[role]) for role in ("inputs", "outputs")
    )
    extents = tuple(
        NamedExtent(**(entry | {"buckets": tuple(entry["buckets"])}))
        for entry in manifest.get("extents", ())
    )
    interface = CInterface(name, inputs, outputs, manifest["workspace_bytes"], extents)
    kernel = CudaKernel(library, interface, ",".join(manifest["architectures"]))
    kernel.expect_device()
    return kernel


def _manifest_of(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        read: object = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror}; expected a folder that mg-compile wrote."
        ) from error
    except ValueError as error:
        raise UserError(f"{path} is no JSON ({error}); run mg-compile again.") from error
    manifest = cast(dict[str, Any], read) if isinstance(read, dict) else {}
    if manifest.get("interface_version") != INTERFACE_VERSION:
        raise UserError(
            f"{path} is not of version {INTERFACE_VERSION} of the C interface; run this mugraph's "
            "mg-compile again."
        )
    return manifest


def _tensor_of(entry: dict[str, Any]) -> CTensor:
    fields = entry | {name: tuple(entry.get(name, ())) for name in ("shape", "strides", "names")}
    return CTensor(**cast(dict[str, Any], fields))
