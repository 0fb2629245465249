"""ResNet-50's convolutions on a GPU: the kernel of ``examples/cute/convolution.py`` and cuDNN.

    python -m benchmarks.convolution --only "3, 3" --output benchmarks/results/convolution_h200

Every layer at batch 32, f16, channels last, in several tiles, beside
``torch.nn.functional.conv2d`` with cuDNN's own search (``cudnn.benchmark``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.cases import main
from benchmarks.cute_kernels import Example, Shapes

BATCH = 32
SHARED_BYTES = 225 << 10
"""What stages and the tile that is stored may take."""
TILES = [(64, 64), (128, 64), (128, 128), (128, 256), (256, 128)]
"""Places and filters a block; as many warp groups as there are 64 places."""


@dataclass(frozen=True)
class Layer:
    """A convolution, and how often ResNet-50 has it."""

    side: int
    channels: int
    filters: int
    window: int
    stride: int
    count: int

    @property
    def padding(self) -> int:
        """As PyTorch's ResNet-50 has it."""
        return self.window // 2

    @property
    def out(self) -> int:
        """The side of the result."""
        return (self.side + 2 * self.padding - self.window) // self.stride + 1

    @property
    def shapes(self) -> Shapes:
        """Images, filters and results, channels last."""
        images = (BATCH, self.side, self.side, self.channels)
        filters = (self.filters, self.window, self.window, self.channels)
        return [(images, None), (filters, None), ((BATCH, self.out, self.out, self.filters), None)]

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * BATCH * self.out**2 * self.filters * self.channels * self.window**2

    def variants(self) -> dict[str, dict[str, Any]]:
        """Options of the example by the name of a tile, each with as many stages as have room."""
        if self.channels % 8:
            return {"predicated": {}}
        found: dict[str, dict[str, Any]] = {}
        for rows, columns in TILES:
            if columns > max(64, self.filters):
                continue
            stored = 2 * rows * min(columns, 128)
            stages = min(6, (SHARED_BYTES - stored) // (2 * 64 * (rows + columns)))
            found[f"{rows}x{columns}"] = {"tile": (rows, columns), "stages": stages}
        return found

    def convolve(self, images: Any, filters: Any) -> Any:
        """PyTorch's convolution of tensors whose channels come last; of float64 without cuDNN."""
        import torch

        with torch.backends.cudnn.flags(enabled=images.dtype != torch.float64, benchmark=True):
            places = torch.nn.functional.conv2d(
                images.permute(0, 3, 1, 2),
                filters.permute(0, 3, 1, 2),
                stride=self.stride,
                padding=self.padding,
            )
        return places.permute(0, 2, 3, 1)

    def case(self) -> Example:
        """The example in all tiles, beside cuDNN."""
        return Example(
            "convolution",
            "f16",
            self.shapes,
            self.convolve,
            {"strides": (self.stride,) * 2, "padding": (self.padding,) * 2},
            self.variants(),
            peer="cuDNN",
            work=float(self.operations),
        )


LAYERS = [
    Layer(224, 3, 64, 7, 2, 1),
    Layer(56, 64, 64, 1, 1, 1),
    Layer(56, 64, 64, 3, 1, 3),
    Layer(56, 64, 256, 1, 1, 4),
    Layer(56, 256, 64, 1, 1, 2),
    Layer(56, 256, 128, 1, 1, 1),
    Layer(56, 128, 128, 3, 2, 1),
    Layer(28, 128, 512, 1, 1, 4),
    Layer(56, 256, 512, 1, 2, 1),
    Layer(28, 512, 128, 1, 1, 3),
    Layer(28, 128, 128, 3, 1, 3),
    Layer(28, 512, 256, 1, 1, 1),
    Layer(28, 256, 256, 3, 2, 1),
    Layer(14, 256, 1024, 1, 1, 6),
    Layer(28, 512, 1024, 1, 2, 1),
    Layer(14, 1024, 256, 1, 1, 5),
    Layer(14, 256, 256, 3, 1, 5),
    Layer(14, 1024, 512, 1, 1, 1),
    Layer(14, 512, 512, 3, 2, 1),
    Layer(7, 512, 2048, 1, 1, 3),
    Layer(14, 1024, 2048, 1, 2, 1),
    Layer(7, 2048, 512, 1, 1, 2),
    Layer(7, 512, 512, 3, 1, 2),
]

if __name__ == "__main__":
    title, cases = (
        f"Convolutions of ResNet-50, batch {BATCH}, f16",
        [each.case() for each in LAYERS],
    )
    raise SystemExit(main(title, __doc__, cases, output="build/convolution"))
