"""Shared settings of the tests."""

import os

os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.expanduser("~/.cache/adarl/jax"))
