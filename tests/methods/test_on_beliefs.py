"""Methods where only images are seen, on a small world: they act on what the eye of a model believes."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from dot import CONFIG, FAMILY

from adarl import stages
from adarl.config import resolve
from adarl.model import fit
from adarl.progress import Progress


def untrained(method: Any) -> Any:
    """What two seeds would have learned, of zeros."""
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), method.trained_like(2))


@pytest.mark.parametrize("name", ["oracle", "mql", "pnn"])
def test_methods_without_theta_act_on_what_an_eye_without_theta_believes(name: str):
    """That they run: whether they learn is shown where states are seen, with the same code."""
    known = stages.at_targets(FAMILY) if name == "oracle" else FAMILY
    plan = dataclasses.replace(CONFIG.vae, theta_s=0, theta_r=0, theta_o=1 if name == "oracle" else 0)
    model = fit.blank(*stages.sizes_of(known, plan), plan, stages.image_of(known))
    quiet, config = Progress(quiet=True), resolve(FAMILY, CONFIG)
    film = stages.film_of(known, known.sources, stages.record(known, known.sources, config, jr.key(0), quiet), jr.key(1))
    method = stages.method_of(name, stages.lesson_of(known, film, config, model), None, config)
    # A first column is trained as any other method is.
    trained = untrained(method) if name == "pnn" else method.train(jr.split(jr.key(2), 2), stages.Unkept(), lambda _: None)
    policy = stages.adapt(FAMILY, method, trained, "out", "3", config, jr.key(3), jr.key(2))
    shapes = lambda tree: [(x.shape, x.dtype) for x in jax.tree.leaves(tree)]  # noqa: E731
    assert shapes(policy) == shapes(method.policy_like(2)) and shapes(trained) == shapes(method.trained_like(2))
    assert (policy.seen_as is None) == (name != "oracle")
    assert min(stages.evaluate(method, {("out", "3"): policy}, config, jr.key(4))[0]["scores"]) >= 1


def test_what_one_method_found_of_a_target_another_need_not_find_again(monkeypatch: pytest.MonkeyPatch):
    """They share the model and the samples. How they act is their own."""
    plan = dataclasses.replace(CONFIG.vae, theta_s=1, theta_r=0, theta_o=1)
    model = fit.blank(*stages.sizes_of(FAMILY, plan), plan, stages.image_of(FAMILY))
    quiet, config = Progress(quiet=True), resolve(FAMILY, CONFIG)
    episodes = stages.record(FAMILY, FAMILY.sources, config, jr.key(0), quiet)
    lesson = stages.lesson_of(FAMILY, stages.film_of(FAMILY, FAMILY.sources, episodes, jr.key(1)), config, model)
    method: Any = stages.method_of("adarl_plus", lesson, model, config)
    at = (FAMILY, method, untrained(method), "out", "3", config, jr.key(3), jr.key(2))
    found = stages.adapt(*at)
    monkeypatch.setattr(stages, "target_samples", None)  # nobody looks again
    again = stages.adapt(*at, found.known)
    assert all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(again), strict=True))


def test_where_no_theta_matters_to_a_policy_nothing_is_moved_elsewhere():
    plan = dataclasses.replace(CONFIG.vae, theta_s=1, theta_r=0, theta_o=1)
    model = fit.blank(*stages.sizes_of(FAMILY, plan), plan, stages.image_of(FAMILY))
    quiet, config = Progress(quiet=True), resolve(FAMILY, CONFIG)
    film = stages.film_of(FAMILY, FAMILY.sources, stages.record(FAMILY, FAMILY.sources, config, jr.key(0), quiet), jr.key(1))
    for edge in (0.0, 1.0):
        masks = jax.tree.map(jnp.ones_like, model.masks)
        masks = dataclasses.replace(masks, c_theta_to_s=jnp.full_like(masks.c_theta_to_s, edge))
        one = dataclasses.replace(model, masks=masks)
        method: Any = stages.method_of("adarl_plus", stages.lesson_of(FAMILY, film, config, one), one, config)
        assert (method.sources.elsewhere is not None) == bool(edge)
