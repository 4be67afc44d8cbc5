import jax

jax.config.update("jax_numpy_dtype_promotion", "strict")
