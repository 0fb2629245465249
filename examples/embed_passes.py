"""mugraph's passes in a pipeline of one's own, between passes of xDSL."""

from pathlib import Path

from xdsl.passes import PassPipeline
from xdsl.transforms.canonicalize import CanonicalizePass

from mugraph.passes.mugraph.resolve_layout import ResolveLayoutPass
from mugraph.passes.schedule.plan_swizzle import PlanSwizzlePass
from mugraph.reading import make_context, read_module

context = make_context()
module = read_module(str(Path(__file__).parent / "rmsnorm_linear.mlir"), context)
PassPipeline((CanonicalizePass(), ResolveLayoutPass(), PlanSwizzlePass())).apply(context, module)
print(module)
