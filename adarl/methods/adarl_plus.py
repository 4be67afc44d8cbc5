"""AdaRL+: AdaRL that also practises where no source is, and looks ahead before it acts where it has never been.

In: the world model of the sources. Out: as AdaRL. The policy is trained in imagined domains too, the model at thetas between
and beyond the sources; and of the networks that training passed through, and of two thetas to tell them, a target gets those
that do best in the model at the target's theta. Nothing is trained there.
"""

from typing import Any

import equinox as eqx
import jax
import jax.random as jr

from adarl.adapt.states import Estimate
from adarl.agent import Agent
from adarl.methods.adarl import AdaRL
from adarl.methods.method import Lesson, Policy, Trained
from adarl.model.world import WorldModel
from adarl.policy.foresee import suited
from adarl.policy.learn import LearnState

STARTS = 64  # that an agent remembers, to look ahead from


class AdaRLPlus(AdaRL):
    """AdaRL with imagination."""

    def __init__(self, lesson: Lesson, model: WorldModel):
        super().__init__(lesson, model, imagined=True)

    def kept(self, states: LearnState) -> Any:
        """All networks that were evaluated."""
        return states.evaluated

    def knowing(self, trained: Trained, known: Estimate) -> Policy:
        """The network that suits the target, and what to tell it."""
        world: Any = self.sources.imagined
        one = lambda networks, merit, theta, key: suited(world, networks, merit, self.view, theta, key)  # noqa: E731
        each = (trained.q, trained.merit, known.theta, jr.split(jr.key(0), len(trained.merit)))
        q, told = eqx.filter_jit(eqx.filter_vmap(one))(*each)
        return Policy(q, known, told, self.seen_as(known.theta))

    def agent(self, trained: Trained) -> Agent:
        """As in AdaRL, with all networks of the best seed."""
        world: Any = self.sources.imagined
        best = int(trained.merit.max(1).argmax())
        networks = jax.tree.map(lambda x: x[best], trained.q)
        return Agent(self.model, networks, trained.merit[best], world.narrow[:STARTS], self.view)
