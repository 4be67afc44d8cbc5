"""The protocol of an environment written in JAX: pure functions of (key, state, action, factors).

Factors are data, not structure, so one compiled program steps every domain of a family at once. `Host` environments
(`host.py`) answer the same questions through Gymnasium's vector API.
"""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from adarl.types import Step

Factors = Mapping[str, Float[Array, ""]]


@runtime_checkable
class Functional(Protocol):
    """A pure environment with an observed state vector and discrete actions."""

    @property
    def state_names(self) -> tuple[str, ...]:
        """A name for every dimension of the state."""
        ...

    @property
    def n_actions(self) -> int:
        """Actions are 0 .. n_actions - 1."""
        ...

    @property
    def defaults(self) -> Mapping[str, float]:
        """Every factor that may change, with the value it has when nobody changes it."""
        ...

    def reset(self, key: PRNGKeyArray, factors: Factors, wide: Bool[Array, ""]) -> Float[Array, " state"]:
        """A start. `wide` asks for one spread over the reachable states, which simulators can give and plants cannot."""
        ...

    def step(self, key: PRNGKeyArray, s_tm1: Float[Array, " state"], a_tm1: Int[Array, ""], factors: Factors) -> Step:
        """One step."""
        ...

    def recordable(self, s: Float[Array, " state"]) -> Bool[Array, ""]:
        """Whether a recording may go on in this state, even after a failure. Acting always stops at a failure."""
        ...


@runtime_checkable
class Camera(Functional, Protocol):
    """A pure environment whose state is not seen, but an image of it."""

    @property
    def image(self) -> tuple[int, int, int]:
        """Height, width and channels of what is seen."""
        ...

    def observe(
        self, key: PRNGKeyArray, s: Float[Array, " state"], factors: Factors
    ) -> Float[Array, "height width channel"]:
        """What is seen of a state, in about [-1, 1]. Noise comes from the key."""
        ...
