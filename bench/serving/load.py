# SPDX-License-Identifier: Apache-2.0
"""The server under load: without and with speculation, and llama.cpp's own server beside it.

Throughput, time to the first token and between tokens by number of clients (closed loop: every client
asks the next question as soon as it has its answer), and the longest gap in running streams while a
long prompt arrives. The sides take turns in every repeat. Questions are those of this project in
turns of the categories, long contexts left out; greedy, prefix caches off. Writes serving.json and
serving.md into `--out`.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
from record import ROOT, comparison, cpu_name, git_commit, sha256, spread  # noqa: E402
from servers import LLAMA, LlamaServer, CloverServer  # noqa: E402
import stall  # noqa: E402

CATEGORIES = ("chat", "code", "maths", "translation", "summarisation", "retrieval")
REQUESTS = {1: 24, 4: 48, 8: 64, 16: 96, 32: 128, 64: 192}
PEER_REQUESTS = {8: 32, 32: 96}
SIDES = {"off": "Clover, plain", "auto": "Clover", "server": "llama.cpp"}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path,
                        default=ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--clover", type=pathlib.Path, default=ROOT / "build/clover")
    parser.add_argument("--clients", type=int, nargs="*", default=list(REQUESTS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--share", type=float, default=1.0, help="of the requests (short tries)")
    parser.add_argument("--no-peer", action="store_true", help="leave llama.cpp's server out")
    parser.add_argument("--no-stall", action="store_true", help="leave the long prompts out")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/results")
    arguments = parser.parse_args()
    if min([arguments.repeats, arguments.tokens, *arguments.clients]) < 1:
        parser.error("--repeats, --tokens and --clients are at least 1")
    if not 0 < arguments.share <= 1:
        parser.error("--share lies above 0, at most 1")
    for path in (arguments.model, arguments.clover):
        if not path.is_file():
            parser.error(f"{path} does not exist")
    return arguments


def write_questions(path):
    """One file with the questions of all categories, taking turns."""
    files = [(ROOT / f"bench/questions/{name}.jsonl").read_text().splitlines()
             for name in CATEGORIES]
    path.write_text("".join(line + "\n" for turn in zip(*files) for line in turn))


def take_load(arguments, url, clients, requests, speculation):
    """One closed loop of `clover bench serve`: its figures."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_questions(folder / "questions.jsonl")
        run = subprocess.run(
            [str(arguments.clover), "bench", "serve", "--url", url + "/v1", "--questions",
             str(folder / "questions.jsonl"), "--clients", str(clients), "--requests",
             str(requests), "--repeats", "1", "-n", str(arguments.tokens), "--temp", "0",
             "--speculation", speculation, "--quiet", "--json", str(folder / "out.json")],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
        if run.returncode != 0:
            raise SystemExit(f"requests failed: {clients} clients, {SIDES[speculation]}")
        found = json.loads((folder / "out.json").read_text())["results"][0]["runs"][0]
    print(f"{clients:3} clients, {SIDES[speculation]:13}: {found['tokens_per_second']:.0f} tokens/s, "
          f"TTFT {found['ttft_ms']['p50']:.0f} ms", file=sys.stderr, flush=True)
    return found


def requests_of(arguments, table, clients):
    most = table.get(clients, 3 * clients)
    return max(clients, round(most * arguments.share))


def measure_ours(arguments):
    """{clients: {side: [run of each repeat]}} of Clover without and with speculation."""
    found = {clients: {"off": [], "auto": []} for clients in arguments.clients}
    with tempfile.TemporaryFile() as log:
        server = CloverServer(arguments, log)
        for repeat in range(arguments.repeats):
            for clients, sides in found.items():
                for side in sorted(sides, reverse=(repeat + clients) % 2 == 1):
                    sides[side].append(take_load(arguments, server.url, clients,
                                                 requests_of(arguments, REQUESTS, clients), side))
        stalls = [] if arguments.no_stall else stall.measure_all(server.url, arguments.repeats)
        memory = server.memory()
        server.close()
    return found, stalls, memory


def measure_peer(arguments):
    """As measure_ours(), of Clover as it is and llama.cpp's server."""
    found = {}
    for clients in [c for c in PEER_REQUESTS if c in arguments.clients and not arguments.no_peer]:
        found[clients] = {"auto": [], "server": []}
        with tempfile.TemporaryFile() as log:
            urls = {"auto": CloverServer(arguments, log), "server": LlamaServer(arguments, log, clients)}
            for repeat in range(arguments.repeats):
                for side in sorted(urls, reverse=repeat % 2 == 1):
                    found[clients][side].append(
                        take_load(arguments, urls[side].url, clients,
                                  requests_of(arguments, PEER_REQUESTS, clients), side))
            for server in urls.values():
                server.close()
    return found


def summary(sides, over, under):
    """Spreads of a number of clients, and the ratios of the pairs of runs."""
    def ratios(read):
        return spread([read(a) / read(b) for a, b in zip(sides[over], sides[under])])

    result = {side: {
        "tokens_per_second": spread([run["tokens_per_second"] for run in runs]),
        "extra_tokens_per_step": statistics.median(run["extra_tokens_per_step"] or 0 for run in runs),
        "ttft_ms": spread([run["ttft_ms"]["p50"] for run in runs]),
        "ttft_ms_p99": spread([run["ttft_ms"]["p99"] for run in runs]),
        "tpot_ms": spread([run["tpot_ms"]["p50"] for run in runs]),
        "tpot_ms_p99": spread([run["tpot_ms"]["p99"] for run in runs]),
    } for side, runs in sides.items()}
    result["ratio"] = ratios(lambda run: run["tokens_per_second"])
    result["ttft_ratio"] = ratios(lambda run: run["ttft_ms"]["p50"])
    return result


def comparisons(result):
    """The figures as `clover report` shows them."""
    everything = []
    for results, over in ((result["speculation"], "Clover without speculation"),
                          (result["peer"], "llama.cpp")):
        if not results:
            continue
        names = [side for side in SIDES if side in next(iter(results.values()))]
        for title, unit, key, ratio, less in (
                ("Throughput", "tokens per second", "tokens_per_second", "ratio", False),
                ("Time to first token, medians", "ms", "ttft_ms", "ttft_ratio", True),
                ("Time to first token, p99", "ms", "ttft_ms_p99", None, True),
                ("Time between tokens, medians", "ms", "tpot_ms", None, True)):
            sides = {SIDES[side]: {f"{clients} clients": found[side][key]
                                   for clients, found in results.items()} for side in names}
            if ratio:
                ratio = (f"Clover over {over}", {f"{clients} clients": found[ratio]
                                                 for clients, found in results.items()})
            everything.append(comparison(f"{title} under load, beside {over}", unit, sides,
                                         less_is_better=less, ratio=ratio))
    if result["stalls"]:
        gaps = {}
        for run in result["stalls"]:
            side = gaps.setdefault(f"speculation {run['speculation']}", {})
            group = f"{run['streams']} stream{'' if run['streams'] == 1 else 's'}"
            side.setdefault(group, []).append(run["longest_gap_ms"])
        sides = {side: {group: spread(runs) for group, runs in found.items()}
                 for side, found in gaps.items()}
        everything.append(comparison(
            "Longest gap in running streams while a prompt of 4,000 tokens arrives", "ms", sides,
            less_is_better=True))
    return everything


def cell(value, digits=0):
    return f"{value['median']:.{digits}f} [{value['min']:.{digits}f}–{value['max']:.{digits}f}]"


def load_table(results, under):
    lines = ["| clients | | tokens/s | ratio | extra tokens/step | TTFT ms, median | p99 | ratio of "
             "the medians | TPOT ms, median | p99 |", "|---|---|---|---|---|---|---|---|---|---|"]
    for clients, found in results.items():
        for side in [side for side in SIDES if side in found]:
            one, compared = found[side], side == "auto"
            lines.append(
                f"| {clients} | {SIDES[side]} | {cell(one['tokens_per_second'])} | "
                f"{cell(found['ratio'], 2) if compared else ''} | "
                f"{one['extra_tokens_per_step']:.2f} | {cell(one['ttft_ms'])} | "
                f"{cell(one['ttft_ms_p99'])} | {cell(found['ttft_ratio'], 2) if compared else ''} | "
                f"{cell(one['tpot_ms'], 1)} | {cell(one['tpot_ms_p99'], 1)} |")
    return [*lines, "", f"Ratios are those of Clover over {under}, of the two runs of a pair."]


def stall_table(stalls):
    lines = ["| streams | speculation | the prompt took, ms | longest gap meanwhile, ms | longest gap "
             "before, ms |", "|---|---|---|---|---|"]
    for key in sorted({(run["streams"], run["speculation"]) for run in stalls}):
        runs = [run for run in stalls if (run["streams"], run["speculation"]) == key]
        cells = [cell(spread([run[name] for run in runs]))
                 for name in ("prompt_ms", "longest_gap_ms", "longest_gap_before_ms")]
        lines.append(f"| {key[0]} | {key[1]} | " + " | ".join(cells) + " |")
    return lines


def markdown(result):
    settings = result["settings"]
    lines = ["# The server under load", "",
             f"{result['model']['name']} on {result['machine']['cpu']}, {result['machine']['cores']} "
             f"cores, with the clients on the same machine; commit {result['commit']}, "
             f"{result['date']}. {', '.join(CATEGORIES)} of this project's questions, at most "
             f"{settings['tokens']} tokens, greedy; median of {settings['repeats']} interleaved runs "
             f"and [min–max]. Most resident memory of the server: {result['resident_mib']:.0f} MiB.",
             "", *load_table(result["speculation"], "Clover without speculation")]
    if result["peer"]:
        lines += ["", "## Beside llama.cpp's server", "",
                  f"llama-server of llama-cpp-python {result['llama_cpp']}, as many slots as clients, "
                  "the same threads, both servers up all the time.", "",
                  *load_table(result["peer"], "llama.cpp")]
    if result["stalls"]:
        lines += ["", "## Running streams while a prompt of 4,000 tokens arrives", "",
                  *stall_table(result["stalls"])]
    return "\n".join([*lines, "", "Made by `bench/serving/serve.sh`.", ""])


def main():
    arguments = parse_arguments()
    ours, stalls, memory = measure_ours(arguments)
    peer = measure_peer(arguments)
    result = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": {"cpu": cpu_name(), "cores": arguments.threads},
        "commit": git_commit(),
        "model": {"name": arguments.model.name, "sha256": sha256(arguments.model)},
        "llama_cpp": (LLAMA / "version").read_text().strip() if peer else None,
        "settings": {"repeats": arguments.repeats, "tokens": arguments.tokens},
        "resident_mib": memory,
        "speculation": {clients: summary(sides, "auto", "off") for clients, sides in ours.items()},
        "peer": {clients: summary(sides, "auto", "server") for clients, sides in peer.items()},
        "stalls": stalls,
    }
    result["comparisons"] = comparisons(result)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "serving.json").write_text(json.dumps(result, indent=2) + "\n")
    page = markdown(result)
    (arguments.out / "serving.md").write_text(page)
    print(page, end="")


if __name__ == "__main__":
    main()
