"""A run killed at ten random moments and continued each time: are its scores, bit for bit, those of a run left alone?

    python benchmarks/killed.py

Writes results/killed.json. The moments are spread over the time of the uninterrupted run.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KILLS = 10
SMALL = """
    --seeds=2 --episodes=2 --steps=200 --samples 50steps --collect.trials=50 --model.hidden=24
    --model.open-steps=500 --model.search-steps=1000 --model.binary-steps=500
    --policy.learner.updates=2000 --policy.evaluate-every=100 --policy.evaluate-steps=100 --policy.capacity=20000
""".split()  # noqa: SIM905


def command(path: Path) -> list[str]:
    return [sys.executable, "-m", "adarl.cli", "run", "cartpole-gravity", "--out", str(path), *SMALL]


def main() -> None:
    draw = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        whole, killed = Path(folder) / "whole", Path(folder) / "killed"
        begun = time.monotonic()
        subprocess.run(command(whole), check=True, stdout=subprocess.DEVNULL)
        seconds = time.monotonic() - begun
        kills = []
        while len(kills) < KILLS:
            # Each attempt starts Python anew, so a moment is drawn from one whole run.
            moment = draw.uniform(2.0, seconds)
            process = subprocess.Popen(command(killed), stdout=subprocess.DEVNULL, start_new_session=True)
            try:
                process.wait(timeout=moment)
            except subprocess.TimeoutExpired:
                pass
            else:  # it was done before the moment came: begin another one
                shutil.rmtree(killed)
                continue
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills.append({"after_seconds": round(moment, 2), "files": sorted(f.name for f in killed.glob("*.npz"))})
            print(kills[-1], flush=True)
        subprocess.run(command(killed), check=True, stdout=subprocess.DEVNULL)
        same = {
            name: (whole / name).read_bytes() == (killed / name).read_bytes()
            for name in ("scores_adarl_plus.json", "model.npz", "policy_adarl_plus.npz", "adapt_adarl_plus_0_50steps.npz")
        }
    result = {"command": "python benchmarks/killed.py", "identical": same, "kills": kills}
    path = Path("results/killed.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(same)


if __name__ == "__main__":
    main()
