"""From jobs to raw scores: what runs, in which order, and what stands in the files."""

import csv
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from adarl import AdarlError, bench
from adarl.bench import Entry, Job
from adarl.collect import CollectConfig
from adarl.config import resolve
from adarl.domains.family import family
from adarl.evaluate.scores import CARTPOLE_MDP, CARTPOLE_POMDP, COLUMNS
from adarl.policy.double_dqn import DoubleDQNConfig
from adarl.policy.learn import PolicyConfig
from adarl.run.sweep import Teller


def jobs(tmp_path: Path, **given) -> list[Job]:
    asked = {"samples": ("20",), "seeds": 30, "methods": CARTPOLE_MDP.methods} | given
    return bench.jobs_of("cartpole-mdp", tmp_path, **asked)


def test_every_family_meets_every_method_the_longest_first(tmp_path: Path):
    found = jobs(tmp_path)
    assert len({(job.entry.family, job.config.methods) for job in found}) == len(found) == 5 * 7
    assert [job.work for job in found] == sorted((job.work for job in found), reverse=True)
    assert len({job.directory for job in found}) == len(found)


def test_methods_of_a_family_differ_in_nothing_but_the_method(tmp_path: Path):
    by_family: dict[str, set] = {}
    for job in jobs(tmp_path):
        by_family.setdefault(job.entry.family, set()).add(replace(job.config, methods=()))
    assert all(len(configs) == 1 for configs in by_family.values())


def test_a_share_of_the_updates_is_whole_evaluations(tmp_path: Path):
    whole, third = jobs(tmp_path, methods=("adarl",)), jobs(tmp_path, methods=("adarl",), updates=1 / 3)
    for one, other in zip(whole, third, strict=True):
        assert 0 < 3 * other.config.policy.learner.updates <= one.config.policy.learner.updates
        assert other.config.policy.learner.updates % other.config.policy.evaluate_every == 0


def test_an_unknown_table_is_named_with_the_closest(tmp_path: Path):
    with pytest.raises(AdarlError, match="Did you mean 'cartpole-mdp'"):
        bench.jobs_of("cartpole", tmp_path, samples=("20",), seeds=1, methods=("adarl",))


def test_from_images_methods_that_share_a_model_share_a_run(tmp_path: Path):
    found = bench.jobs_of("cartpole-pomdp", tmp_path, samples=("20",), seeds=30, methods=CARTPOLE_POMDP.methods)  # pyright: ignore
    groups = {job.config.methods for job in found if job.entry.row == "N"}
    assert groups == {("oracle",), ("mql", "non_t", "psm", "pnn"), ("adarl_star",), ("adarl_plus", "adarl")}, (
        "the longest first"
    )
    assert len(found) == 3 * 4 and len({job.directory for job in found}) == 12
    assert all(job.work == sum(map(job.work_of, job.config.methods)) for job in found)


def test_two_that_remember_gigabytes_do_not_meet_unless_asked(tmp_path: Path):
    shared = {"samples": ("20",), "seeds": 1, "methods": ("adarl",)}
    assert bench.usual_workers(bench.jobs_of("cartpole-pomdp", tmp_path, **shared)) == 1  # pyright: ignore
    assert bench.usual_workers(bench.jobs_of("cartpole-mdp", tmp_path, **shared)) == os.cpu_count()  # pyright: ignore


def test_a_method_that_a_table_has_not_is_named_before_anything_runs(tmp_path: Path):
    with pytest.raises(AdarlError, match=r"Unknown method 'pnn'.*adarl_plus"):
        jobs(tmp_path, methods=("pnn",))


def scored(method: str, target: str, samples: str, scores: list[float]) -> dict:
    return {"method": method, "target": target, "samples": samples, "scores": scores}


def test_two_targets_of_a_row_are_averaged_by_seed(tmp_path: Path):
    motor = next(job for job in jobs(tmp_path) if job.entry.row == "motor" and job.config.methods == ("cavia",))
    scores = [scored("cavia", "in_neg", "20", [1.0, 3.0]), scored("cavia", "in_pos", "20", [3.0, 5.0])]
    cells = bench.cells_of(motor, "cavia", [*scores, scored("other", "in_pos", "20", [9.0, 9.0])])
    assert cells == [
        {"row": "motor_in", "samples": "20", "method": "cavia", "seed": 0, "score": 2.0},
        {"row": "motor_in", "samples": "20", "method": "cavia", "seed": 1, "score": 4.0},
    ]


def test_an_oracle_needs_no_samples(tmp_path: Path):
    job = next(job for job in jobs(tmp_path, samples=("20", "50"), methods=("oracle",)) if job.entry.row == "G")
    cells = bench.cells_of(job, "oracle", [scored("oracle", "in", "20", [7.0]), scored("oracle", "in", "50", [7.0])])
    assert [(cell["row"], cell["samples"], cell["score"]) for cell in cells] == [("G_in", "0", 7.0)]


def test_a_job_replaces_its_own_cells_only(tmp_path: Path):
    one, other = jobs(tmp_path, methods=("adarl",))[:2]
    answer = lambda job, score: {  # noqa: E731
        "cells": bench.cells_of(job, "adarl", [scored("adarl", "in", "20", [score])]),
        "curve": {"updates": [1000], "score": [[score]]},
        "cost": {"minutes": 1.0, "peak_megabytes": round(10 - score)},
        "summary": None,
    }
    for job, score in ((one, 1.0), (other, 2.0), (one, 3.0)):
        bench.keep(tmp_path, job.entry.family, "adarl", answer(job, score))
    rows = {row["row"]: row for row in csv.DictReader((tmp_path / "scores.csv").read_text().splitlines())}
    assert {name: float(row["score"]) for name, row in rows.items()} == {
        f"{one.entry.row}_in": 3.0,
        f"{other.entry.row}_in": 2.0,
    }
    cost = json.loads((tmp_path / "cost.json").read_text())
    assert cost[one.entry.family]["adarl"] == {"minutes": 1.0, "peak_megabytes": 9}  # the highest that was seen
    curves = json.loads((tmp_path / "curves.json").read_text())
    assert curves[one.entry.family]["adarl"]["score"] == [[3.0]] and set(rows[f"{one.entry.row}_in"]) == set(COLUMNS)


class Silent(Teller):
    def __init__(self):
        pass

    def stage(self, name: str, total: int):
        return lambda done: None


def test_a_job_leaves_its_scores_and_is_not_done_twice(tmp_path: Path):
    entry = Entry("cartpole-gravity", "G", {}, {})
    policy = PolicyConfig(
        DoubleDQNConfig(hidden=8, updates=20), environments=5, evaluate_every=10, evaluate_steps=10, capacity=100
    )
    base = bench.config_of(entry, ("3steps",), 1)
    config = replace(base, methods=("oracle",), policy=policy, episodes=1, steps=20, collect=CollectConfig(trials=5))
    job = Job(entry, resolve(family("cartpole-gravity"), config), tmp_path / "run")
    first = bench.work(job, Silent())["oracle"]
    stamp = (tmp_path / "run" / "policy_oracle.manifest.json").read_text()
    again = bench.work(job, Silent())["oracle"]
    assert (tmp_path / "run" / "policy_oracle.manifest.json").read_text() == stamp
    assert first["cells"] == again["cells"] and len(first["cells"]) == 2
    assert first["curve"]["updates"] == [10, 20] and first["cost"]["peak_megabytes"] > 0
    assert not list((tmp_path / "run").glob("*.partial.npz"))


def test_a_theta_that_follows_the_factor_is_monotone():
    domain = lambda kind, factor, theta, **more: {  # noqa: E731
        "kind": kind,
        "factors": {"g": factor},
        "theta": {"theta_s_1": theta, "theta_o_1": 0.0},
        **more,
    }
    summary = {
        "factors": ["g"],
        "theta_min": {"theta_s_1": True, "theta_o_1": False},
        "s_min": {"s_1": True, "s_2": False},
        "insight": {"explained": {"x": 0.9}, "pictures": {}},
        "domains": [
            *(domain("source", g, -g) for g in (1.0, 2.0, 4.0)),
            domain("target", 3.0, -2.5, samples="20"),
            domain("target", 3.0, -9.0, samples="50"),
        ],
    }
    found = bench.model_figures(summary)
    assert found["monotone"] == {"theta_s_1, 20": 1.0, "theta_s_1, 50": 0.8}
    assert found["s_min"] == 1 and found["explained"] == {"x": 0.9} and "pictures" not in found
