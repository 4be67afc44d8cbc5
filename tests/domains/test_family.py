import numpy as np
import pytest

from adarl.domains.cartpole import CartPole
from adarl.domains.family import Family, families, family
from adarl.domains.gym_envs import CartPoleEnv
from adarl.types import AdarlError

GRAVITIES = (5.0, 10.0, 20.0, 30.0, 40.0)
MASSES = (0.5, 1.5, 2.5, 3.5, 4.5)


@pytest.mark.parametrize(
    ("factor", "sources", "targets"),
    [
        ("gravity", GRAVITIES, {"in": 15.0, "out": 55.0}),
        ("mass", MASSES, {"in": 1.0, "out": 5.5}),
        (
            "motor",
            (-1.5, -1.0, -0.5, 0.5, 1.0, 1.5),
            {"in_neg": -0.75, "in_pos": 0.75, "out_neg": -2.0, "out_pos": 2.0},
        ),
        ("target", (-1.2, -0.6, 0.0, 0.6, 1.2), {"in": 0.3, "out": 1.6}),
    ],
)
def test_families_with_one_factor(factor: str, sources, targets):
    got = family(f"cartpole-{factor}")
    assert got.factors == (factor,)
    assert got.sources == tuple({factor: value} for value in sources)
    assert got.targets == {name: {factor: value} for name, value in targets.items()}
    assert got.domain == CartPole(follow=factor == "target")


def test_gravity_and_mass_together_are_the_product():
    got = family("cartpole-gravity-mass")
    assert {(p["gravity"], p["mass"]) for p in got.sources} == {(g, m) for g in GRAVITIES for m in MASSES}
    assert len(got.sources) == 25
    assert got.targets == {"in": {"gravity": 15.0, "mass": 1.0}, "out": {"gravity": 55.0, "mass": 5.5}}


def test_every_family_is_known_by_its_name():
    for name, known in families().items():
        assert family(name) == known


def test_stack_fills_in_the_defaults():
    got = family("cartpole-gravity")
    stacked = got.stack(got.sources)
    assert set(stacked) == set(CartPole().defaults)
    np.testing.assert_array_equal(stacked["gravity"], np.array(GRAVITIES, np.float32))
    np.testing.assert_array_equal(stacked["mass"], np.ones(5, np.float32))


def test_unknown_names_come_with_the_closest_known_one():
    with pytest.raises(AdarlError, match=r"Unknown family 'cartpole-gravty'. Did you mean 'cartpole-gravity'\?"):
        family("cartpole-gravty")
    with pytest.raises(AdarlError, match=r"Unknown target 'inn'. Did you mean 'in'\? Accepted: in, out\."):
        family("cartpole-gravity").target("inn")
    with pytest.raises(AdarlError, match=r"Unknown factor 'gravitee'. Did you mean 'gravity'\?"):
        Family("own", CartPole(), ("gravitee",), ({"gravitee": 1.0}, {"gravitee": 2.0}), {})
    with pytest.raises(AdarlError, match=r"Unknown factor 'mas'. Did you mean 'mass'\?"):
        Family("own", CartPole(), ("mass",), ({"mas": 1.0}, {"mass": 2.0}), {})


def test_a_known_target_is_found():
    assert family("cartpole-gravity").target("out") == {"gravity": 55.0}


def test_one_source_teaches_no_change():
    with pytest.raises(AdarlError, match=r"'own' has 1 source domain.* at least 2"):
        Family("own", CartPole(), ("mass",), ({"mass": 1.0},), {})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_factors_are_finite(value: float):
    with pytest.raises(AdarlError, match=f"Factor 'mass' is {value}; it must be a finite number"):
        Family("own", CartPole(), ("mass",), ({"mass": 1.0}, {"mass": value}), {})
    with pytest.raises(AdarlError, match=f"Factor 'mass' is {value}"):
        Family("own", CartPole(), ("mass",), ({"mass": 1.0}, {"mass": 2.0}), {"in": {"mass": value}})


def test_every_domain_names_every_factor():
    with pytest.raises(AdarlError, match="lacks a value for the factor 'mass'"):
        Family("own", CartPole(), ("gravity", "mass"), ({"gravity": 1.0, "mass": 1.0}, {"gravity": 2.0}), {})


def test_gymnasium_domains_are_tuples_or_mappings():
    sources = [(5.0, 1.0), {"gravity": 10.0, "mass": 2.0}]
    got = Family.from_gymnasium(CartPoleEnv, ("gravity", "mass"), sources, {"in": (7.0, 1.5)}, name="mine")
    assert got.name == "mine"
    assert got.sources == ({"gravity": 5.0, "mass": 1.0}, {"gravity": 10.0, "mass": 2.0})
    assert got.targets == {"in": {"gravity": 7.0, "mass": 1.5}}


@pytest.mark.parametrize(
    ("factors", "sources", "message"),
    [
        ("gravty", (5.0, 10.0), r"Unknown factor 'gravty'. Did you mean 'gravity'\?"),
        ("gravity", (5.0,), "'own' has 1 source domain"),
        ("gravity", (5.0, float("nan")), "Factor 'gravity' is nan"),
        (("gravity", "mass"), ((5.0, 1.0), (10.0,)), r"has 1 values; the factors are \['gravity', 'mass'\]"),
        ("gravity", ({"gravity": 5.0}, {"mass": 1.0}), "Unknown factor 'mass'"),
    ],
)
def test_bad_gymnasium_families_are_told(factors, sources, message: str):
    with pytest.raises(AdarlError, match=message):
        Family.from_gymnasium(CartPoleEnv, factors, sources, {})
