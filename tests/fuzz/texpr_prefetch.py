"""Random programs whose loops load tiles ahead: steps, barriers and waits against enumeration."""

from __future__ import annotations

import numpy as np


def make_prefetching(seed: int) -> tuple[str, dict[str, int]]:
    """A program, and the sizes of its input ``x: f32[K, W]`` and its output ``f32[W]``.

    One or two buffers are filled from rows of ``x`` in each iteration, in one or two steps; one or
    two steps read elements that other threads have loaded, some part by part through registers.
    """
    draw = np.random.default_rng(seed)

    def pick(*options: int) -> int:
        return int(draw.choice(options))

    width, rows = pick(32, 64, 96), pick(2, 3, 5, 8)
    ahead, buffers = pick(1, 2, 3, 4, 9), pick(1, 2)
    text = [
        f"fn f(x: f32[{rows}, {width}]): f32[{width}] {{",
        "par 1 b #grid {",
        f"new s: f32[{width}] #reg",
        f"par {width} j #block {{ s[j] = 0.0 }}",
        f"seq {rows} |k| #prefetch({ahead}) {{",
    ]
    for n in range(buffers):
        text.append(f"new t{n}: f32[{width}] #shared")
    for n in range(buffers):
        row = "k" if n == 0 else f"{rows - 1} - k"
        text.append(f"par {width} j #block {{ t{n}[j] = x[{row}, j] }}")
    kind = pick(0, 1, 2)
    if kind == 2:
        parts = pick(1, 2, 4)
        text.append(f"par {width} j #block {{ seq {parts} |p| {{")
        text.append("reg r: f32[4]")
        for n in range(4):
            step = pick(1, 3, 5)
            text.append(f"r[{n}] = t{n % buffers}[(j * {step} + p + {n}) % {width}]")
        text.append("seq 4 v { s[j] += r[v] } } }")
    else:
        for n in range(1 + kind):
            place = [f"{width - 1} - j", f"(j + {pick(1, 31, 32)}) % {width}", "j"][pick(0, 1, 2)]
            text.append(f"par {width} j #block {{ s[j] += {n + 1}.0 * t{n % buffers}[{place}] }}")
    text += ["}", f"par {width} j #block {{ result[j] = s[j] }}", "}", "}"]
    return "\n".join(text), {"rows": rows, "width": width}
