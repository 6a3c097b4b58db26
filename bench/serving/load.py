# SPDX-License-Identifier: Apache-2.0
"""The server under load: without and with speculation, and llama.cpp's own server beside it.

Closed loop (every client asks the next question as soon as it has its answer): throughput, time to
the first token and between tokens by number of clients. Open loop (Poisson arrivals): the same times
at a given rate of requests; in a closed loop faster answers bring the next prompts sooner, so that
only an open loop shows what speculation does to the first token. And the longest gap in running
streams while a long prompt arrives. The sides take turns in every repeat. Questions are those of this
project, categories in turns, short and long prompts apart; greedy, prefix caches off. Writes
serving.json, which `clover report` makes a page of, into `--out`.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
from record import ROOT, comparison, comparison_parser, origin, spread  # noqa: E402
from servers import LLAMA, CloverServer, LlamaServer  # noqa: E402
import stall  # noqa: E402

QUESTIONS = {"short prompts": ("chat", "code", "maths", "translation", "multi_turn"),
             "long prompts": ("summarisation", "retrieval")}
# Clients: requests of a run. No question comes twice in a run, and every run has a server of its own:
# a server that learns from what it has answered would answer the same again too fast.
REQUESTS = {"short prompts": {1: 24, 4: 48, 8: 64, 16: 96, 32: 105, 64: 105},
            "long prompts": {1: 12, 4: 24, 8: 32, 32: 42}}
PEER_REQUESTS = {8: 64, 32: 96}
# Requests a second, below what two cores can answer, and requests of a run.
RATES = {"short prompts": (2, 5), "long prompts": (1, 2)}
RATE_REQUESTS = 30
PARTS = ("closed", "open", "stall", "peer")
SIDES = {"off": "Clover, plain", "auto": "Clover", "server": "llama.cpp"}


def parse_arguments():
    parser = comparison_parser(__doc__, 3)
    parser.add_argument("--clients", type=int, nargs="*", default=(1, 4, 8, 16, 32, 64))
    parser.add_argument("--share", type=float, default=1.0, help="of the requests (short tries)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    arguments = parser.parse_args()
    if min([arguments.repeats, arguments.tokens, *arguments.clients]) < 1:
        parser.error("--repeats, --tokens and --clients are at least 1")
    if not 0 < arguments.share <= 1:
        parser.error("--share lies above 0, at most 1")
    for path in (arguments.model, arguments.clover):
        if not path.is_file():
            parser.error(f"{path} does not exist")
    return arguments


def write_questions(path, categories):
    """One file with the questions of all categories, taking turns."""
    files = [(ROOT / f"bench/questions/{name}.jsonl").read_text().splitlines()
             for name in categories]
    path.write_text("".join(line + "\n" for turn in zip(*files) for line in turn))


def start(arguments, log, side, loop):
    if side != "server":
        return CloverServer(arguments, log)
    return LlamaServer(arguments, log, int(loop[1]))  # a slot for every client


class Load:
    """Runs of `clover bench serve`; `runs` keeps all their figures."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.runs = []

    def take(self, side, questions, requests, loop):
        """One run of so many requests; `loop` is an option of bench serve with its value."""
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as log:
            folder = pathlib.Path(folder)
            write_questions(folder / "questions.jsonl", QUESTIONS[questions])
            server = start(self.arguments, log, side, loop)
            run = subprocess.run(
                [str(self.arguments.clover), "bench", "serve", "--url", server.url + "/v1",
                 "--questions", str(folder / "questions.jsonl"), *loop, "--requests", str(requests),
                 "--repeats", "1", "-n", str(self.arguments.tokens), "--temp", "0", "--speculation",
                 side, "--quiet", "--json", str(folder / "out.json")],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
            memory = server.memory()
            server.close()
            if run.returncode != 0:
                raise SystemExit(f"requests failed: {questions}, {loop}, {SIDES[side]}")
            found = json.loads((folder / "out.json").read_text())["results"][0]["runs"][0]
        found |= {"side": side, "questions": questions, "loop": " ".join(loop),
                  "resident_mib": memory}
        self.runs.append(found)
        print(f"{questions}, {' '.join(loop)}, {SIDES[side]}: {found['tokens_per_second']:.0f} "
              f"tokens/s, TTFT {found['ttft_ms']['p50']:.0f} ms", file=sys.stderr, flush=True)
        return found

    def compare(self, sides, questions, loops):
        """{group: {side: [run of each repeat]}} for loops {group: (option and value, requests)}."""
        found = {group: {side: [] for side in sides} for group in loops}
        for repeat in range(self.arguments.repeats):
            for number, (group, (loop, requests)) in enumerate(loops.items()):
                for side in sorted(sides, reverse=(repeat + number) % 2 == 1):
                    found[group][side].append(self.take(side, questions, requests, loop))
        return found


def closed_loops(arguments, table):
    """Loops for compare() by numbers of clients that `table` knows, or all of them."""
    return {f"{clients} client{'' if clients == 1 else 's'}":
            (("--clients", str(clients)), max(clients, round(table[clients] * arguments.share)))
            for clients in arguments.clients if clients in table}


def open_loops(arguments, rates):
    return {f"{rate} requests/s": (("--rate", str(rate)),
                                   max(2, round(RATE_REQUESTS * arguments.share)))
            for rate in rates}


def tail(key, quantile):
    return lambda run: run[key][quantile]


THROUGHPUT = ("Throughput", "tokens per second", lambda run: run["tokens_per_second"], False)
TIMES = (("Time to first token, medians", "ms", tail("ttft_ms", "p50"), True),
         ("Time to first token, p99", "ms", tail("ttft_ms", "p99"), True),
         ("Time between tokens, medians", "ms", tail("tpot_ms", "p50"), True))


def tables(found, over, title, quantities):
    """Comparisons of the two sides of compare()'s result, the first over the second."""
    (one, other), everything = over, []
    for name, unit, read, less in quantities:
        sides = {SIDES[side]: {group: spread([read(run) for run in runs[side]])
                               for group, runs in found.items()} for side in (other, one)}
        ratio = {group: spread([read(a) / read(b) for a, b in zip(runs[one], runs[other])])
                 for group, runs in found.items()}
        everything.append(comparison(f"{name}, {title}", unit, sides, less_is_better=less,
                                     ratio=(f"{SIDES[one]} over {SIDES[other]}", ratio)))
    return everything


def measure_ours(arguments, load):
    """Comparisons of Clover with and without speculation."""
    sides, everything = ("auto", "off"), []
    for questions in QUESTIONS if "closed" in arguments.parts else ():
        found = load.compare(sides, questions, closed_loops(arguments, REQUESTS[questions]))
        everything += tables(found, sides, f"closed loop, {questions}", (THROUGHPUT, *TIMES))
    for questions in QUESTIONS if "open" in arguments.parts else ():
        found = load.compare(sides, questions, open_loops(arguments, RATES[questions]))
        everything += tables(found, sides, f"open loop, {questions}", TIMES)
    if "stall" in arguments.parts:
        with tempfile.TemporaryFile() as log:
            server = CloverServer(arguments, log)
            everything.append(stall.compare(server.url, arguments.repeats))
            server.close()
    return everything


def measure_peer(arguments, load):
    """Comparisons of Clover as it is with llama.cpp's server."""
    sides = ("auto", "server")
    found = load.compare(sides, "short prompts", closed_loops(arguments, PEER_REQUESTS))
    return tables(found, sides, "beside llama.cpp's server, short prompts",
                  (THROUGHPUT, *TIMES, ("Most resident memory", "MiB", lambda run: run["resident_mib"],
                                        True))) if found else []


def main():
    arguments = parse_arguments()
    load = Load(arguments)
    comparisons = measure_ours(arguments, load)
    if "peer" in arguments.parts:
        comparisons += measure_peer(arguments, load)
    result = {
        **origin(arguments),
        "llama_cpp": (LLAMA / "version").read_text().strip() if "peer" in arguments.parts else None,
        "settings": {"repeats": arguments.repeats, "tokens": arguments.tokens},
        "comparisons": comparisons,
        "runs": load.runs,
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "serving.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
