"""What can be watched: positions by hand, and in words how each agent fared."""

import json

import pytest
from made import STATES, agent

from adarl.report import animation


def watch(summary: dict, agents: list[dict], **more) -> list[animation.Clip]:
    return animation.clips(summary | {"state_names": STATES, "animations": [{"target": "in", "agents": agents, **more}]})


def test_frames_are_metres_and_degrees(summary):
    (clip,) = watch(summary, [agent("adapted", 2, None)], samples="50steps")
    frames = json.loads(clip.frames)
    assert frames == {"seconds": 0.02, "agents": [{"x": [0.0, 0.01, 0.02], "angle": [0.0, 0.29, 0.57], "ended": None}]}
    assert (clip.target, clip.place, clip.samples, clip.last) == ("in", "gravity 15", "50 steps", 2)


def test_verdicts_say_when_and_how_an_agent_failed(summary):
    agents = [agent("adapted", 300, None), agent("not adapted", 40, 40), agent("oracle", 300, 4000), agent("lost", 241, 241)]
    (clip,) = watch(summary, agents, steps=10000)
    assert [lane.verdict for lane in clip.lanes] == [
        "is still up at step 10,000",
        "falls at step 40",
        "fails at step 4,000, after what is shown",
        "leaves the track at step 241",
    ]


def test_the_mark_and_the_pole_follow_the_factors(summary):
    summary["domains"][4]["factors"] = {"target": 1.5, "length": 1.0}
    (clip,) = watch(summary, [agent("adapted", 300, None)])
    (lane,) = clip.lanes
    assert 'class="mark" d="M150.0 14' in lane.drawing and 'd="M0 0V-200"' in lane.drawing
    assert lane.verdict == "is still up at step 300, on average 0.75 m from the mark"  # from 0 to 3 m, 1.5 on the way
    (plain,) = watch(summary | {"domains": [], "scores": []}, [agent("adapted", 3, None)])
    assert "mark" not in plain.lanes[0].drawing and 'd="M0 0V-100"' in plain.lanes[0].drawing


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"animations": []},
        {"animations": [{"target": "in", "agents": []}]},
        {"animations": [{"target": "in", "agents": [agent("adapted", -1, None)]}]},
        {
            "animations": [{"target": "in", "agents": [agent("adapted", 3, None)]}],
            "state_names": ["o_0", "o_1", "o_2", "o_3"],
        },
    ],
)
def test_what_cannot_be_drawn_is_left_out(summary, changes):
    assert animation.clips(summary | {"state_names": STATES} | changes) == []
