# SPDX-License-Identifier: Apache-2.0
"""What a comparison's record holds besides its figures: machine, commit, files, spreads."""

import hashlib
import pathlib
import platform
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def spread(runs):
    return {"median": statistics.median(runs), "min": min(runs), "max": max(runs), "runs": runs}


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def git_commit():
    run = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
                         capture_output=True, text=True, check=False)
    return run.stdout.strip() or "unknown"


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def comparison(title, unit, sides, **more):
    """What `clover report` shows of one quantity: sides {name: {group: spread or None}}.

    more: note, less_is_better, ratio (name, {group: spread or None}).
    """
    ratio = more.get("ratio")
    return {"title": title, "unit": unit, "note": more.get("note", ""),
            "less_is_better": more.get("less_is_better", False),
            "sides": [{"name": name, "values": values} for name, values in sides.items()],
            "ratio": {"name": ratio[0], "values": ratio[1]} if ratio else None}
