"""What tests of independence decide of a model; and what is recorded to be watched: who is told what, when each ended."""

import dataclasses

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import adarl
from adarl import Agent, Config, exhibits, stages
from adarl.adapt.states import Estimate
from adarl.domains.cartpole import CartPole
from adarl.domains.family import Family
from adarl.locate.structure import Structure
from adarl.model import fit
from adarl.model.plan import ModelConfig
from adarl.network import Network
from adarl.policy.view import View
from adarl.types import Theta

BALANCE = [0.1, 0.3, 3.0, 1.0]
CONFIG = Config(samples=("20", "50steps", "100steps"), steps=500)


def found(*edges: tuple[int, int]) -> Structure:
    """Tests on two states: rows s_1, s_2 and r, columns s_1, s_2, a and k."""
    there = np.zeros((3, 4), bool)
    for edge in edges:
        there[edge] = True
    return Structure(np.ones((3, 4)), there, there.astype(float))


@pytest.mark.parametrize(
    ("structure", "sizes"),
    [
        (None, (2, 1)),
        (found(), (2, 1)),  # tests that see nothing may lack power
        (found((0, 3)), (2, 0)),
        (found((2, 3)), (0, 1)),
        (found((1, 3), (2, 3)), (2, 1)),
    ],
)
def test_theta_is_sized_by_what_changed(structure: Structure | None, sizes: tuple[int, int]):
    family = adarl.family("cartpole-gravity-mass")
    plan = stages.sized(ModelConfig(), family, structure)
    assert (plan.theta_s, plan.theta_r) == sizes
    asked = stages.sized(ModelConfig(theta_s=3, theta_r=2), family, structure)
    assert (asked.theta_s, asked.theta_r) == (3, 2)


def test_tests_bound_the_masks_where_they_are_asked():
    plan, structure = ModelConfig(theta_s=2, theta_r=1), found((1, 0), (0, 3))
    assert stages.bounds_of(structure, plan, "learned") is None and stages.bounds_of(None, plan, "tests") is None
    tests, both = (stages.bounds_of(structure, plan, whose) for whose in ("tests", "both"))
    assert tests is not None and both is not None
    for bounds in (tests, both):
        assert bounds.most.c_s_to_s.tolist() == [[1, 0], [1, 1]]  # a state carries itself on
        assert bounds.most.c_theta_to_s.tolist() == [[1, 1], [0, 0]] and not bounds.most.c_theta_to_r.any()
    assert eqx.tree_equal(tests.least, tests.most) and not any(x.any() for x in jax.tree.leaves(both.least))


def linear(gains: list[float]) -> Network:
    """Pushes right where gains @ x is positive."""
    q = Network((len(gains), 2), "relu", key=jr.key(0))
    new = (jnp.stack([jnp.zeros(len(gains)), jnp.asarray(gains)]), jnp.zeros(2))
    return eqx.tree_at(lambda n: (n.layers[0].weight, n.layers[0].bias), q, new)


@pytest.fixture
def agent() -> Agent:
    """Balances where theta is 0 and pushes right for ever where it is 1, which all sources have."""
    model = fit.blank(4, 2, 3, ModelConfig(theta_s=1, theta_r=1, hidden=4))
    ones = Theta(jnp.ones((3, 1)), jnp.ones((3, 1)))
    view = View(jnp.zeros(4), jnp.ones(4), (0, 1, 2, 3), (0,), ())
    networks = jax.tree.map(lambda x: x[None], linear([*BALANCE, 100.0]))
    return Agent(dataclasses.replace(model, theta=ones), networks, jnp.zeros(1), jnp.zeros((1, 4)), view)


def known(family: Family) -> dict[str, Estimate]:
    """Only the fewest samples give the theta that balances, and only to the first seed."""
    one = lambda first: Theta(jnp.asarray([[first], [1.0]]), jnp.zeros((2, 1)))  # noqa: E731
    estimates = {n: Estimate(one(0.0 if n == "50steps" else 1.0), one(0.1)) for n in CONFIG.samples}
    return {f"{target}/{n}": estimate for target in family.targets for n, estimate in estimates.items()}


def test_agents_start_alike_and_are_told_different_thetas(agent: Agent):
    family = adarl.family("cartpole-gravity")
    oracle = {target: (linear(BALANCE), View(jnp.zeros(4), jnp.ones(4), (0, 1, 2, 3), (), ())) for target in family.targets}
    found = exhibits.animate(family, agent, known(family), CONFIG, jr.key(0), oracle)
    assert [(entry["target"], entry["samples"], entry["steps"]) for entry in found] == [
        ("in", "50steps", 500),
        ("out", "50steps", 500),
    ]
    adapted, other, trained = found[0]["agents"]
    assert [adapted["name"], other["name"], trained["name"]] == ["adapted", "not adapted", "oracle"]
    assert adapted["states"][0] == other["states"][0] == trained["states"][0]
    assert adapted["ended_at"] is None and len(adapted["states"]) == exhibits.CLIP + 1
    assert trained["states"] == adapted["states"]  # it balances by the same gains
    assert 5 < other["ended_at"] < 20 and len(other["states"]) == other["ended_at"] + 1
    assert abs(other["states"][-1][2]) > CartPole().angle_limit >= abs(other["states"][-2][2])
    assert found[0]["agents"][0]["states"][0] != found[1]["agents"][0]["states"][0]


def test_without_an_oracle_two_agents_are_left_and_the_same_key_repeats_them(agent: Agent):
    family = adarl.family("cartpole-gravity")
    run = lambda seed: exhibits.animate(family, agent, known(family), CONFIG, jr.key(seed))  # noqa: E731
    assert [len(entry["agents"]) for entry in run(0)] == [2, 2]
    assert run(0) == run(0) and run(0) != run(1)


def test_what_is_no_cartpole_is_not_watched(agent: Agent):
    make = lambda gravity: gym.make("adarl/CartPole-v0", gravity=gravity)  # noqa: E731 (observed as o_0 to o_3)
    own = Family.from_gymnasium(make, "gravity", sources=[5.0, 40.0], targets={"in": 20.0})
    assert exhibits.animate(own, agent, known(own), CONFIG, jr.key(0)) == []
