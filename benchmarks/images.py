"""Images per second while a model of them is estimated, beside a convolutional VAE in torch of the same task, in turns.

    python benchmarks/images.py

Writes results/images.json. Absolute rates belong to the machine; ratios are what is claimed. Both look at every image of as
many trials, carry a memory of the same width and make a step of Adam. The torch model has what such models usually have:
overlapping convolutions, four pixels wide, every second pixel; it has no masks and one transition for all dimensions, and
its batch is neither drawn nor loaded. That is less work than ours.

It is measured twice. As the paper's losses are printed, which draw every image anew and every image one step ahead: `torch`.
And with the losses of some of the images only, as many as ours has: `torch, some images`. Ours also draws every image once
for the second look of its encoder; neither of the others has one.
"""

import json
import time
from pathlib import Path

import jax
import jax.random as jr
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]

from adarl import family
from adarl.collect import collect, random_policy
from adarl.domains.cartpole import CartPoleImages
from adarl.model import fit
from adarl.model.eye import Film
from adarl.model.plan import MissVAEConfig
from adarl.model.rows import measure, pack, unscaled

CONFIG = MissVAEConfig(theta_s=1, theta_r=0, theta_o=0)
STEPS, ROUNDS = 40, 3
TRIALS, TIME = CONFIG.batch, 41


class Ours:
    """A chunk of the open phase; pictures are drawn from stored states as they are used."""

    def __init__(self):
        chosen = family("cartpole-gravity-images")
        factors, camera = chosen.stack(chosen.sources), chosen.domain
        assert isinstance(camera, CartPoleImages)
        episodes = collect(camera, factors, random_policy(2), jr.key(0), trials=100, steps=TIME - 1, wide=0.8)
        self.film = Film.of(episodes, factors, camera, jr.key(1))
        self.scale = unscaled(CONFIG.latents, measure(pack(episodes)))
        self.state = fit.start(CONFIG.latents, 2, len(chosen.sources), CONFIG, jr.key(2), self.film.image)
        self.rate()  # compiles

    def rate(self) -> float:
        """Images per second."""
        begin = time.perf_counter()
        self.state, _ = fit.advance(self.state, self.film, self.scale, 2, CONFIG, jr.key(3))
        jax.block_until_ready(self.state)
        return CONFIG.chunk * TRIALS * TIME / (time.perf_counter() - begin)


class Convolutional(nn.Module):
    """Encoder, memory, transition, and two decoders."""

    def __init__(self, frames: int):
        super().__init__()
        self.frames = frames
        one, two = 16, 32
        n = CONFIG.latents
        self.look = nn.Sequential(
            *(nn.Conv2d(1, one, 4, 2, 1), nn.ReLU(), nn.Conv2d(one, one, 4, 2, 1), nn.ReLU()),
            *(nn.Conv2d(one, two, 4, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 8 * two, CONFIG.features), nn.ReLU()),
        )
        self.memory = nn.LSTM(CONFIG.features + 3, CONFIG.memory, batch_first=True)
        self.out = nn.Linear(CONFIG.memory, 2 * n)
        self.transition = nn.Sequential(nn.Linear(n + 2, 64), nn.SiLU(), nn.Linear(64, 2 * n))
        self.draw, self.ahead = self._decoder(n, one, two), self._decoder(n, one, two)

    def _decoder(self, n: int, one: int, two: int) -> nn.Module:
        return nn.Sequential(
            *(nn.Linear(n, CONFIG.features), nn.ReLU(), nn.Linear(CONFIG.features, 4 * 8 * two), nn.ReLU()),
            *(nn.Unflatten(1, (two, 4, 8)), nn.ConvTranspose2d(two, one, 4, 2, 1), nn.ReLU()),
            *(nn.ConvTranspose2d(one, one, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(one, 1, 4, 2, 1), nn.Tanh()),
        )

    def forward(self, o, before):
        """The loss of some trials."""
        features = self.look(o.flatten(0, 1)).unflatten(0, (TRIALS, TIME))
        mean, raw = self.out(self.memory(torch.cat([features, before], -1))[0]).chunk(2, -1)
        width = 0.02 + nn.functional.softplus(raw)
        s = mean + width * torch.randn_like(width)
        expected, wide = self.transition(torch.cat([s[:, :-1], before[:, 1:, :2]], -1)).chunk(2, -1)
        wide = 0.02 + nn.functional.softplus(wide)
        apart = torch.log(wide / width[:, 1:]) + (width[:, 1:] ** 2 + (mean[:, 1:] - s[:, :-1] - expected) ** 2) / (
            2 * wide**2
        )
        at = 1 + torch.randperm(TIME - 1)[: self.frames]
        shown = o[:, at].flatten(0, 1)
        error = lambda drawn: ((drawn - shown) ** 2).sum() / (2 * 0.1**2)  # noqa: E731
        return apart.sum() + error(self.draw(s[:, at].flatten(0, 1))) + error(self.ahead(s[:, at - 1].flatten(0, 1)))


class Torch:
    """The same batch again and again."""

    def __init__(self, frames: int):
        torch.manual_seed(0)
        self.model = Convolutional(frames)
        self.adam = torch.optim.Adam(self.model.parameters(), 1e-3)
        self.o = torch.rand(TRIALS, TIME, 1, 32, 64) * 2 - 1
        self.before = torch.rand(TRIALS, TIME, 3)
        self.rate()

    def rate(self) -> float:
        """Images per second."""
        begin = time.perf_counter()
        for _ in range(STEPS):
            self.adam.zero_grad()
            self.model(self.o, self.before).backward()
            self.adam.step()
        return STEPS * TRIALS * TIME / (time.perf_counter() - begin)


def main() -> None:
    peers = {"adarl": Ours(), "torch": Torch(TIME - 1), "torch, some images": Torch(CONFIG.frames)}
    rounds = [{name: peer.rate() for name, peer in peers.items()} for _ in range(ROUNDS)]
    ratio = lambda name: round(float(np.median([one["adarl"] / one[name] for one in rounds])), 2)  # noqa: E731
    found = {
        "command": "python benchmarks/images.py",
        "images_per_second": {name: [round(one[name], 1) for one in rounds] for name in peers},
        "ratio": {name: ratio(name) for name in peers if name != "adarl"},
        "batch": {"trials": TRIALS, "images": TRIALS * TIME},
        "threads": torch.get_num_threads(),
    }
    Path("results/images.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
