"""What a model of images sees and foretells, as pictures that stand inside the page.

In: `insight` of a summary. Out: rows of pictures, each a small file in its own address, and words about them.
"""

import base64
import struct
import zlib
from typing import Any, NamedTuple

import numpy as np

from adarl.report.reading import Summary
from adarl.report.words import listed

NAMES = {"seen": "what was seen", "believed": "what the model believes", "foretold": "what it foretold"}


class Strip(NamedTuple):
    """One row of pictures."""

    name: str
    pictures: list[str]
    """Addresses."""


def strips(summary: Summary) -> list[Strip]:
    """Rows of the same moments of one trial; none where images were not seen."""
    shown = (summary.get("insight") or {}).get("pictures")
    return [Strip(name, [address(np.asarray(o)) for o in shown[key]]) for key, name in NAMES.items()] if shown else []


def said(summary: Summary) -> list[str]:
    """How much of the hidden state is known, and how far ahead."""
    found: dict[str, Any] = summary.get("insight") or {}
    lines = []
    if explained := found.get("explained"):
        lines.append(
            "A line through what is believed explains of the hidden state, as R² on recordings kept aside:"
            f" {listed(_shares(explained))}."
        )
    if anywhere := found.get("anywhere"):
        lines.append(f"Where recordings start anywhere reachable, it explains {listed(_shares(anywhere))}.")
    if ahead := found.get("ahead"):
        steps = max(ahead, key=int)
        parts = [f"{name} {error:.3f}" for name, error in ahead[steps].items()]
        lines.append(f"Foretold {steps} steps without another look, it errs in the median by: {listed(parts)}.")
    return lines


def _shares(explained: dict[str, float]) -> list[str]:
    return [f"{name} {share:.3f}" for name, share in explained.items()]


def address(o: np.ndarray) -> str:
    """A picture of bytes, one channel or three, as a PNG in its own address."""
    height, width, channels = o.shape
    kind = {1: 0, 3: 2}[channels]
    lines = b"".join(b"\0" + row.tobytes() for row in o.astype(np.uint8))
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    )
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()
