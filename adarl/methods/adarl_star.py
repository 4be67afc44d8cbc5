"""AdaRL*: AdaRL without masks. Every function reads everything, and the policy sees all states and all of theta."""

from dataclasses import replace

from adarl.methods.adarl import AdaRL
from adarl.methods.method import Lesson
from adarl.model.fit import ModelConfig
from adarl.model.losses import Sparsity
from adarl.model.world import WorldModel


def without_masks(config: ModelConfig) -> ModelConfig:
    """The same estimate with as many steps, in which every edge stays and none has a price."""
    free = Sparsity(**dict.fromkeys(Sparsity.__dataclass_fields__, 0.0))
    steps = config.search_steps + config.binary_steps
    return replace(config, threshold=-1.0, shrink=0.0, sparsity=free, search_steps=0, binary_steps=steps)


class AdaRLStar(AdaRL):
    """AdaRL on a model that `without_masks` estimated."""

    def __init__(self, lesson: Lesson, model: WorldModel):
        super().__init__(lesson, model, imagined=False)
