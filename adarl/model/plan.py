"""How the world model is estimated: sizes, steps and prices, for observed states and for images."""

from dataclasses import dataclass, field

from adarl.model.eye import Hears
from adarl.model.losses import Sparsity


@dataclass(frozen=True)
class ModelConfig:
    """How the world model is estimated."""

    theta_s: int = -1
    """Dimensions of the change factor of the transition. -1 gives it one for every factor that the family declares, and none
    where tests find that only the reward changed."""
    theta_r: int = -1
    """Dimensions of the change factor of the reward. -1 gives it one, and none where tests find that it did not change."""
    hidden: int = 48
    """Width of the networks."""
    mixture: int = 2
    """Gaussians in a mixture."""
    floor: float = 2e-3
    """Smallest standard deviation, in units of the standardised increment: effects far below it are not edges."""
    reward_floor: float = 0.02
    """The same for the reward, in units of the standardised reward: networks round off the edge of a failure."""
    open_steps: int = 1500
    """Steps of Adam with all edges open, until theta has taken shape."""
    search_steps: int = 3000
    """Steps in which the worth of every edge is measured."""
    binary_steps: int = 1500
    """Steps with the binary masks."""
    batch: int = 640
    """Transitions in a batch, over all domains."""
    learning_rate: float = 3e-3
    """Of functions and theta; decays to 2% before the masks are decided, and once more from 30% after."""
    theta_speed: float = 5.0
    """How much faster theta learns than the functions."""
    shrink: float = 0.3
    """How fast the weights by which a function reads its inputs shrink, relative to the learning rate."""
    threshold: float = 0.5
    """Probability above which an edge stays."""
    sparsity: Sparsity = field(default_factory=Sparsity)
    """L_reg's weights."""

    @property
    def steps(self) -> int:
        """All three phases."""
        return self.open_steps + self.search_steps + self.binary_steps

    @property
    def chunk(self) -> int:
        """Steps between two checkpoints."""
        return 500


@dataclass(frozen=True)
class MissVAEConfig(ModelConfig):
    """How the world model is estimated where images are seen."""

    theta_o: int = -1
    """Dimensions of the change factor of the observation function. -1 gives it one, and none where tests find no change."""
    latents: int = 20
    """Dimensions of the state (paper: 20)."""
    features: int = 64
    """Of an image, before the LSTM."""
    frames: int = 10
    """Images of every trial in a batch that are drawn anew from their states; all of its images are looked at."""
    memory: int = 128
    """Width of the LSTM."""
    free: float = 0.02
    """Nats by which the belief in a dimension may differ from what the transition expects at no cost."""
    hears: Hears = "theta"
    """What the encoder is told of a domain: all of theta, or theta_s and theta_r only, so that it has to see for itself how
    things look there."""
    dear: float = 10.0
    """How many times dearer information is at first; it falls to one within the open phase."""
    floor: float = 0.003
    """Smallest standard deviation of a believed state and of what the transition expects of it."""
    open_steps: int = 1500
    """Steps of Adam with all edges open, until theta has taken shape."""
    search_steps: int = 1500
    """Steps in which the worth of every edge is measured."""
    binary_steps: int = 1000
    """Steps with the binary masks."""
    again_steps: int = 1500
    """Steps with the same masks on what a policy recorded beside, each time that it did."""
    batch: int = 10
    """Trials in a batch, over all domains: many small steps see more than a few large ones."""
    learning_rate: float = 4e-3
    """Of functions and theta; decays to 2% before the masks are decided, and once more from 30% after."""
    theta_speed: float = 10.0
    """How much faster theta learns than the functions."""
    shrink: float = 0.0
    """How fast the weights by which a function reads its inputs shrink, relative to the learning rate."""
    sparsity: Sparsity = field(
        default_factory=lambda: Sparsity(lambda_1=0.01, lambda_2=0.01, lambda_4=0.02, lambda_5=0.02, lambda_6=0.02)
    )
    """L_reg's weights."""

    @property
    def chunk(self) -> int:
        """Steps between two checkpoints."""
        return 100
