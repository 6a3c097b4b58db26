# SPDX-License-Identifier: Apache-2.0
"""Clover against llama.cpp on one model file, interleaved in one run.

Measures, `--repeats` times, alternating between the two programs:
  decode 1   tokens/s of one sequence (the questions one after the other)
  decode 8   tokens/s of eight sequences at once, in total
  prompt     tokens/s of a prompt of `--prompt-tokens` tokens
Greedy, `--tokens` tokens per answer, ends of text ignored, prompts not counted in decode figures.
llama.cpp runs at whichever of the thread counts tried is its fastest, for each measure on its own.
Writes llama_cpp.json and llama_cpp.md into `--out`.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import llama_cpp

from llama_peer import LlamaPeer
from record import ROOT, cell, comparison, comparison_parser, origin, spread

MEASURES = ("decode 1", "decode 8", "prompt")
CHAT = ("<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
        "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n")


def parse_arguments():
    parser = comparison_parser(__doc__, 5)
    parser.add_argument("--questions", type=pathlib.Path,
                        default=pathlib.Path(__file__).with_name("prompts.jsonl"))
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--only", choices=("clover", "llama"))
    parser.add_argument("--readme", action="store_true",
                        help="also put the table into the README, between its markers")
    arguments = parser.parse_args()
    if arguments.repeats < 1 or arguments.tokens < 2 or arguments.threads < 1:
        parser.error("--repeats and --threads are at least 1, --tokens at least 2")
    if not 1 <= arguments.prompt_tokens <= 1024:
        parser.error("--prompt-tokens lies between 1 and 1024")
    if not arguments.model.is_file():
        parser.error(f"{arguments.model} is missing; scripts/setup.sh model fetches the default")
    if arguments.only != "llama" and not arguments.clover.is_file():
        parser.error(f"{arguments.clover} is not built")
    return arguments


class Llama:
    """llama.cpp's side: one peer for each measure, at the best thread count found for it."""

    def __init__(self, arguments, questions):
        self.tokens = arguments.tokens
        context = arguments.prompt_tokens + arguments.tokens + 512
        self.one = LlamaPeer(arguments.model, arguments.threads, 1, context)
        self.eight = LlamaPeer(arguments.model, arguments.threads, 8, context)
        self.prompts = [self.one.tokenize(CHAT.format(q)) for q in questions]
        self.long = (sum(self.prompts, []) * 64)[:arguments.prompt_tokens]
        self.measures = {
            "decode 1": (self.one, self.decode_one),
            "decode 8": (self.eight, self.decode_eight),
            "prompt": (self.one, self.prompt),
        }
        self.threads = {}
        self.tried = {}
        for name, (peer, measure) in self.measures.items():
            self.tried[name] = {}
            for threads in sorted({1, max(1, arguments.threads // 2), arguments.threads}):
                peer.set_threads(threads)
                self.tried[name][threads] = statistics.median(measure() for _ in range(2))
            self.threads[name] = max(self.tried[name], key=self.tried[name].get)

    def run(self, name):
        peer, measure = self.measures[name]
        peer.set_threads(self.threads[name])
        return measure()

    def decode_one(self):
        seconds = count = 0
        for prompt in self.prompts:
            more_seconds, more = self.one.generate([prompt], self.tokens)
            seconds += more_seconds
            count += more
        return count / seconds

    def decode_eight(self):
        seconds, count = self.eight.generate((self.prompts * 8)[:8], self.tokens)
        return count / seconds

    def prompt(self):
        self.one.clear()
        return len(self.long) / self.one.prompt(self.long)


class Clover:
    """Clover's side: its own benchmark, one repeat a call."""

    def __init__(self, arguments):
        self.command = [
            str(arguments.clover), "bench", "decode", "-m", str(arguments.model), "--questions",
            str(arguments.questions), "--methods", "none", "--batch", "1,8", "--repeats", "1",
            "-n", str(arguments.tokens), "--ignore-eos", "--prompt-tokens", str(arguments.prompt_tokens),
            "-t", str(arguments.threads), "--json"]

    def run(self):
        """All three measures of one repeat, by name."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "result.json"
            subprocess.run([*self.command, str(path)], check=True, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL)
            result = json.loads(path.read_text())
        rows = {row["batch"]: row for row in result["results"]
                if row["method"] == "none" and row.get("category") in (None, "all", "overall")}
        for batch in (1, 8):
            if batch not in rows:
                raise SystemExit(f"clover's result has no row of method none, batch {batch}")
        return {
            "decode 1": rows[1]["tokens_per_second"]["median"],
            "decode 8": rows[8]["tokens_per_second"]["median"],
            "prompt": rows[1]["prompt_tokens_per_second"]["median"],
        }


def measure(arguments):
    """Runs everything; returns {side: {measure: [runs]}} and llama.cpp's thread counts."""
    questions = [json.loads(line)["turns"][0]
                 for line in arguments.questions.read_text().splitlines() if line.strip()]
    sides = {}
    llama = clover = None
    if arguments.only != "clover":
        llama = Llama(arguments, questions)
        sides["llama.cpp"] = {name: [] for name in MEASURES}
    if arguments.only != "llama":
        clover = Clover(arguments)
        clover.run()  # Warms the page cache.
        sides["clover"] = {name: [] for name in MEASURES}
    for repeat in range(arguments.repeats):
        # The order alternates, so that a drifting machine favours neither side.
        for side in (("llama.cpp", "clover") if repeat % 2 == 0 else ("clover", "llama.cpp")):
            if side not in sides:
                continue
            found = clover.run() if side == "clover" else {n: llama.run(n) for n in MEASURES}
            for name, value in found.items():
                sides[side][name].append(value)
            print(f"repeat {repeat + 1}: {side:9} " +
                  ", ".join(f"{name} {value:.1f}" for name, value in found.items()),
                  file=sys.stderr)
    return sides, llama


def report(arguments, sides, llama):
    """The result file's content."""
    result = {
        **origin(arguments),
        "settings": {"repeats": arguments.repeats, "tokens": arguments.tokens,
                     "prompt_tokens": arguments.prompt_tokens,
                     "questions": arguments.questions.name},
        "tokens_per_second": {side: {name: spread(runs) for name, runs in measures.items()}
                              for side, measures in sides.items()},
    }
    if llama:
        result["llama_cpp"] = {
            "package": f"llama-cpp-python {llama_cpp.__version__}",
            "system": llama_cpp.llama_print_system_info().decode().strip(),
            "threads": llama.threads,
            "tokens_per_second_by_threads": llama.tried,
        }
    if len(sides) == 2:
        result["ratio"] = {
            name: spread([c / l for c, l in zip(sides["clover"][name], sides["llama.cpp"][name])])
            for name in MEASURES}
    ratio = ("Clover over llama.cpp", result["ratio"]) if "ratio" in result else None
    result["comparisons"] = [comparison(
        "Against llama.cpp", "tokens per second", result["tokens_per_second"], ratio=ratio,
        note=f"{arguments.repeats} interleaved runs, {arguments.tokens} tokens an answer, prompts of "
             f"{arguments.prompt_tokens}.")]
    return result


def markdown(result):
    """The result as a page with one table."""
    settings = result["settings"]
    sides = list(result["tokens_per_second"])
    titles = {"decode 1": "decode, one sequence", "decode 8": "decode, eight sequences, total",
              "prompt": f"prompt of {settings['prompt_tokens']} tokens"}
    lines = [
        "# Speed against llama.cpp", "",
        f"{result['model']['name']} on {result['machine']['cpu']}, {result['machine']['cores']} "
        f"cores; commit {result['commit']}, {result['date']}. Tokens per second, median of "
        f"{settings['repeats']} interleaved runs and [min–max].", "",
        "| | " + " | ".join(sides) + (" | ratio |" if "ratio" in result else " |"),
        "|---" * (1 + len(sides) + ("ratio" in result)) + "|",
    ]
    for name in MEASURES:
        cells = [cell(result["tokens_per_second"][side][name]) for side in sides]
        if "ratio" in result:
            ratio = result["ratio"][name]
            cells.append(f"{ratio['median']:.2f}x [{ratio['min']:.2f}–{ratio['max']:.2f}]")
        lines.append(f"| {titles[name]} | " + " | ".join(cells) + " |")
    if "llama_cpp" in result:
        llama = result["llama_cpp"]
        threads = ", ".join(f"{name}: {count}" for name, count in llama["threads"].items())
        lines += ["", f"{llama['package']}, built for the machine; its best thread counts: "
                  f"{threads}. Greedy, {settings['tokens']} tokens an answer, ends of text ignored. "
                  "Of llama.cpp only the calls of `llama_decode` are timed. The ratio is that of "
                  "the two runs of a pair.", "", "Made by `bench/peers/compare_llama.sh`."]
    return "\n".join(lines) + "\n"


def update_readme(page):
    """Replaces what stands between the README's markers by the page without its title."""
    path = ROOT / "README.md"
    before, rest = path.read_text().split("<!-- speed: begin -->\n")
    _, after = rest.split("<!-- speed: end -->\n")
    body = page.split("\n", 2)[2]
    path.write_text(f"{before}<!-- speed: begin -->\n{body}<!-- speed: end -->\n{after}")


def main():
    arguments = parse_arguments()
    sides, llama = measure(arguments)
    result = report(arguments, sides, llama)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "llama_cpp.json").write_text(json.dumps(result, indent=2) + "\n")
    page = markdown(result)
    (arguments.out / "llama_cpp.md").write_text(page)
    if arguments.readme:
        update_readme(page)
    print(page, end="")


if __name__ == "__main__":
    main()
