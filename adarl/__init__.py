"""adarl: what, where and how to adapt in transfer reinforcement learning.

domains -> collect -> locate -> model -> graph -> policy -> adapt -> evaluate -> report
(Family)  (Episodes) (Changes) (Masks,  (s_min,  (Q(s_min,  (theta of (Scores)   (HTML)
                                Theta)   theta_min) theta_min)) a target)

family = adarl.family("cartpole-gravity")
agent  = adarl.fit(family, seed=0)            # collect, locate, model, graph, policy
here   = agent.adapt(env, samples=50)         # theta of this env; no policy optimisation
action = here.act(observation)
"""

import contextlib as _contextlib
import os as _os
from pathlib import Path as _Path

import jax as _jax

# Compiled programs are kept between processes: the second run starts at once.
if "JAX_COMPILATION_CACHE_DIR" not in _os.environ:
    _cache = _Path(_os.environ.get("XDG_CACHE_HOME", _Path.home() / ".cache")) / "adarl"
    _jax.config.update("jax_compilation_cache_dir", str(_cache))

# Every core is a device of its own, so that policy seeds can be shared out among them.
if "JAX_NUM_CPU_DEVICES" not in _os.environ:
    with _contextlib.suppress(RuntimeError):  # JAX is at work already and stays as it is
        _jax.config.update("jax_num_cpu_devices", _os.cpu_count())

from adarl.agent import Adapted, Agent, load
from adarl.config import Config
from adarl.domains import gym_envs as _gym_envs  # noqa: F401 (registers adarl/CartPole-v0)
from adarl.domains.family import Family, families, family
from adarl.experiment import Result, run
from adarl.experiment import fit_agent as fit
from adarl.types import AdarlError

__version__ = "0.1.0"
__all__ = [
    "Adapted",
    "AdarlError",
    "Agent",
    "Config",
    "Family",
    "Result",
    "families",
    "family",
    "fit",
    "load",
    "run",
]
