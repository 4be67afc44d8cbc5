"""AdaRL*: AdaRL on a model without masks. Every function reads everything, the policy sees all states and all of theta."""

from dataclasses import replace

from adarl.model.losses import Sparsity
from adarl.model.plan import ModelConfig


def without_masks(config: ModelConfig) -> ModelConfig:
    """The same estimate with as many steps, in which every edge stays and none has a price."""
    free = Sparsity(**dict.fromkeys(Sparsity.__dataclass_fields__, 0.0))
    steps = config.search_steps + config.binary_steps
    return replace(config, threshold=-1.0, shrink=0.0, sparsity=free, search_steps=0, binary_steps=steps)
