import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adarl.graph import compact
from adarl.types import Compact, Masks

JITTED = jax.jit(compact)
CALLS = [compact, JITTED]


def masks(c_s_to_s, c_theta_to_s, c_s_to_r, c_theta_to_r) -> Masks:
    """Floats, as the model gives them. Actions reach no verdict of `compact`."""
    d = len(c_s_to_r)
    leaves = (c_s_to_s, np.ones(d), c_theta_to_s, c_s_to_r, 1.0, c_theta_to_r)
    return Masks(*(jnp.asarray(np.asarray(leaf, np.float32)) for leaf in leaves))


def assert_minimal(got: Compact, s_min, theta_s_min, theta_r_min) -> None:
    for flags, expected in zip(vars(got).values(), (s_min, theta_s_min, theta_r_min), strict=True):
        assert flags.dtype == bool
        np.testing.assert_array_equal(flags, np.asarray(expected, bool))


def reaches_reward(c_s_to_s: list[list[int]], c_s_to_r: list[int], start: int) -> bool:
    """Whether a path leads from a state to the reward: a search along the arrows, from cause to effect."""
    seen, todo = {start}, [start]
    while todo:
        j = todo.pop()
        if c_s_to_r[j]:
            return True
        children = {i for i in range(len(c_s_to_r)) if c_s_to_s[i][j]} - seen
        seen |= children
        todo += children
    return False


@st.composite
def graphs(draw):
    d, p = draw(st.integers(1, 8)), draw(st.integers(0, 3))
    # Sparse and dense graphs alike: a fair coin for every edge would connect everything.
    dense = draw(st.integers(1, 9))
    edge = st.integers(0, 9).map(lambda x: int(x < dense))
    row = lambda n: st.lists(edge, min_size=n, max_size=n)  # noqa: E731
    table = lambda n: st.lists(row(n), min_size=d, max_size=d)  # noqa: E731
    return draw(table(d)), draw(table(p)), draw(row(d)), draw(row(p))


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_compact_is_reachability(graph):
    c_s_to_s, c_theta_to_s, c_s_to_r, c_theta_to_r = graph
    d = len(c_s_to_r)
    s_min = [reaches_reward(c_s_to_s, c_s_to_r, i) for i in range(d)]
    theta_s_min = [any(c_theta_to_s[i][j] and s_min[i] for i in range(d)) for j in range(len(c_theta_to_s[0]))]
    assert_minimal(JITTED(masks(*graph)), s_min, theta_s_min, c_theta_to_r)


@pytest.mark.parametrize("call", CALLS)
def test_figure_1(call):
    """theta_s moves s_1 only, among the states only s_d has an edge to r, and s_1 reaches it through s_d.

    s_2 listens to both but influences neither: it is not in s_min. Here d = 3.
    """
    c_s_to_s = [[1, 0, 0], [1, 1, 1], [1, 0, 1]]
    assert_minimal(call(masks(c_s_to_s, [[1], [0], [0]], [0, 0, 1], [1])), [1, 0, 1], [1], [1])


@pytest.mark.parametrize("call", CALLS)
def test_one_step_of_parents_is_not_enough(call):
    """theta -> s_0 -> s_1 -> s_2 -> s_3 -> s_4 -> r: what happens at the far end still reaches the reward."""
    chain = np.eye(5, k=-1)  # s_j moves s_j+1
    assert_minimal(call(masks(chain, np.eye(5)[:, :1], [0, 0, 0, 0, 1], [])), [1] * 5, [1], [])
    broken = chain.copy()
    broken[3, 2] = 0
    assert_minimal(call(masks(broken, np.eye(5)[:, :1], [0, 0, 0, 0, 1], [])), [0, 0, 0, 1, 1], [0], [])


@pytest.mark.parametrize("call", CALLS)
def test_theta_of_irrelevant_states_is_irrelevant(call):
    """The first theta moves s_0 -> r, the second only s_1, which no reward ever sees, the third both."""
    got = call(masks([[1, 0], [1, 1]], [[1, 0, 1], [0, 1, 1]], [1, 0], [0, 1]))
    assert_minimal(got, [1, 0], [1, 0, 1], [0, 1])


@pytest.mark.parametrize("call", CALLS)
def test_without_an_edge_to_the_reward_nothing_matters(call):
    assert_minimal(call(masks(np.ones((3, 3)), np.ones((3, 2)), [0, 0, 0], [0])), [0, 0, 0], [0, 0], [0])


def test_masks_of_several_models_are_vmapped():
    one = masks([[1, 1], [0, 1]], [[0], [1]], [1, 0], [1])
    other = masks([[1, 0], [0, 1]], [[0], [1]], [1, 0], [0])
    both = jax.vmap(compact)(jax.tree.map(lambda x, y: jnp.stack([x, y]), one, other))
    assert_minimal(both, [[1, 1], [1, 0]], [[1], [0]], [[1], [0]])
