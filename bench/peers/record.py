# SPDX-License-Identifier: Apache-2.0
"""What the comparisons share: their options, and what a record holds besides its figures."""

import argparse
import datetime
import hashlib
import os
import pathlib
import platform
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def comparison_parser(description, repeats):
    """The options of every comparison; `repeats` is the default of --repeats."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path,
                        default=ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--clover", type=pathlib.Path, default=ROOT / "build/clover")
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)),
                        help="Clover's threads, and the most that a peer gets")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/results")
    return parser


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


def origin(arguments):
    """Date, machine, commit and model of a record."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": {"cpu": cpu_name(), "cores": arguments.threads, "system": platform.platform()},
        "commit": git_commit(),
        "model": {"name": arguments.model.name, "sha256": sha256(arguments.model)},
    }


def cell(value, digits=0):
    """A spread for a table, "" for None."""
    return (f"{value['median']:.{digits}f} [{value['min']:.{digits}f}–{value['max']:.{digits}f}]"
            if value else "")


def comparison(title, unit, sides, **more):
    """What `clover report` shows of one quantity: sides {name: {group: spread or None}}.

    more: note, less_is_better, ratio (name, {group: spread or None}).
    """
    ratio = more.get("ratio")
    return {"title": title, "unit": unit, "note": more.get("note", ""),
            "less_is_better": more.get("less_is_better", False),
            "sides": [{"name": name, "values": values} for name, values in sides.items()],
            "ratio": {"name": ratio[0], "values": ratio[1]} if ratio else None}
