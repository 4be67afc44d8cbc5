"""HOW, to watch: the cart and its pole in a target, adapted, not adapted and trained there, from the same start.

In: `summary["animations"]`, recorded states. Out: one drawing an agent and the positions that `page.js` moves it by. A
drawing shows its first frame without any script, so a printed page is not empty.
"""

import json
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from adarl.domains.cartpole import TAU, CartPole
from adarl.report.reading import Summary
from adarl.report.words import place, samples_name

METRE = 100  # units of a drawing
MARGIN = 0.25  # metres beyond the end of the track
LIMIT = CartPole().position_limit
ABOUT = {
    "adapted": "knows the theta that it estimated",
    "not adapted": "the same policy, told the mean theta of the sources",
    "oracle": "trained in this very target",
}


class Lane(NamedTuple):
    """One agent."""

    name: str
    about: str
    drawing: Markup
    verdict: str
    """Whether and when it failed, in words."""


class Clip(NamedTuple):
    """The agents in one target, for one player."""

    target: str
    place: str
    samples: str
    last: int
    """The last step that is shown."""
    lanes: list[Lane]
    frames: Markup
    """JSON for the script: seconds of a step and, for every agent, its positions, its angles in degrees, where it ended."""


def clips(summary: Summary) -> list[Clip]:
    """What can be watched: nothing, unless the states are those of CartPole."""
    if tuple(summary["state_names"][:4]) != CartPole().state_names:
        return []
    found = [_clip(entry, _factors(summary, entry["target"])) for entry in summary.get("animations", []) if _shown(entry)]
    return [clip for clip in found if clip.lanes]


def _shown(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The agents with at least one whole state."""
    return [agent for agent in entry["agents"] if agent["states"] and np.isfinite(agent["states"]).all()]


def _factors(summary: Summary, target: str) -> dict[str, float]:
    """The target's factors, from the first place that names it."""
    named = [*(d for d in summary["domains"] if d["kind"] == "target" and d["name"] == target)]
    named += [entry for entry in summary["scores"] if entry["target"] == target]
    return (named[0].get("factors") or {}) if named else {}


def _clip(entry: dict[str, Any], factors: dict[str, float]) -> Clip:
    agents = _shown(entry)
    last = max(len(agent["states"]) for agent in agents) - 1
    steps = entry.get("steps", last)
    lanes, frames = [], []
    for agent in agents:
        states = np.asarray(agent["states"])[:, :4]
        name = agent["name"]
        lanes.append(Lane(name, ABOUT.get(name, ""), _drawing(states[0], factors), _verdict(agent, states, factors, steps)))
        x, degrees = states[:, 0].round(3).tolist(), np.degrees(states[:, 2]).round(2).tolist()
        frames.append({"x": x, "angle": degrees, "ended": agent["ended_at"]})
    text = json.dumps({"seconds": TAU, "agents": frames}, separators=(",", ":"))
    return Clip(entry["target"], place(factors), samples_name(entry.get("samples")), last, lanes, Markup(text))


def _verdict(agent: dict[str, Any], states: np.ndarray, factors: dict[str, float], steps: int) -> str:
    ended, shown = agent["ended_at"], len(states) - 1
    if ended is None:
        said = f"is still up at step {steps:,}"
    elif ended > shown:
        said = f"fails at step {ended:,}, after what is shown"
    else:
        said = f"{'leaves the track' if abs(states[-1, 0]) > LIMIT else 'falls'} at step {ended:,}"
    if "target" in factors:
        said += f", on average {np.abs(states[:, 0] - factors['target']).mean():.2f} m from the mark"
    return said


def _drawing(s: np.ndarray, factors: dict[str, float]) -> Markup:
    """The first frame. The origin is the middle of the track; the axle is where the pole turns."""
    half = factors.get("length", CartPole().defaults["length"])
    pole = 2 * half * METRE
    left, width, height = -(LIMIT + MARGIN) * METRE, 2 * (LIMIT + MARGIN) * METRE, pole + 84
    mark = ""
    if "target" in factors:
        mark = f'<path class="mark" d="M{factors["target"] * METRE:.1f} 14l-10 18h20z"/>'
    ends = "".join(f'<path class="stop" d="M{side * LIMIT * METRE:.0f} -2v14"/>' for side in (-1, 1))
    box = f"{left:.0f} {-pole - 46:.0f} {width:.0f} {height:.0f}"
    return Markup(
        f'<svg class="stage" xmlns="http://www.w3.org/2000/svg" viewBox="{box}" aria-hidden="true">'
        f'<path class="track" d="M{-LIMIT * METRE:.0f} 5h{2 * LIMIT * METRE:.0f}"/>{ends}{mark}'
        f'<g class="cart" transform="translate({s[0] * METRE:.1f} 0)"><rect x="-26" y="-24" width="52" height="24" rx="4"/>'
        f'<g class="pole" transform="translate(0 -24) rotate({np.degrees(s[2]):.2f})"><path d="M0 0V{-pole:.0f}"/></g>'
        '<circle cy="-24" r="4.5"/></g></svg>'
    )
