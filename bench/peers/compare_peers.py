# SPDX-License-Identifier: Apache-2.0
"""Clover and other engines, each plain and with its speculation, on the same prompts in one run.

Every engine runs in a process of its own, started anew for every repeat. A question is asked of one after
the other, in an order that turns with every question, so that a drifting machine favours none. Greedy
answers of at most `--tokens` tokens with the model's own ends of text; prompts are token ids, the
same for all; one request at a time, measured where it was asked. Writes peers.json and peers.md into
`--out`.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from record import ROOT, cell, comparison, comparison_parser, origin, spread
from servers import PEERS, CloverServer, Engine, LlamaServer, post

HERE = pathlib.Path(__file__).resolve().parent
SYSTEM = "You are a helpful assistant."


def parse_arguments():
    parser = comparison_parser(__doc__, 3)
    parser.add_argument("--questions", type=pathlib.Path, default=ROOT / "bench/questions",
                        help="a file of questions or a folder of them; first turns are asked")
    parser.add_argument("--per-category", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=list(ENGINES), default=list(ENGINES))
    arguments = parser.parse_args()
    if min(arguments.per_category, arguments.repeats, arguments.threads) < 1:
        parser.error("--per-category, --repeats and --threads are at least 1")
    if arguments.tokens < 2:
        parser.error("--tokens is at least 2")
    for path in (arguments.model, arguments.clover, arguments.questions):
        if not path.exists():
            parser.error(f"{path} does not exist")
    return arguments


class Asked:
    """What a server answers, from the events that it streams."""

    def events(self, path, body):
        """(seconds since the request, event) for each event of the answer."""
        begin = time.perf_counter()
        with post(self.url + path, {**body, "stream": True}) as answer:
            for line in answer:
                if line.startswith(b"data: {"):
                    yield time.perf_counter() - begin, json.loads(line[6:])

    def ask(self, prompt, tokens):
        """The answer's text and count of tokens, seconds to the first token and to the last."""
        text, first, last, count = "", None, 0.0, 0
        for seconds, event in self.events(*self.request(prompt, tokens)):
            piece, total = self.read(event)
            count = total or count
            if piece:
                first, last = first or seconds, seconds
                text += piece
        return {"answer": text, "tokens": count, "ttft": first or last, "seconds": last}


class Clover(Asked, CloverServer):
    def __init__(self, arguments, log, speculation):
        super().__init__(arguments, log)
        self.speculation = speculation

    def request(self, prompt, tokens):
        return "/v1/completions", {"prompt": prompt, "max_tokens": tokens, "temperature": 0,
                                   "speculation": self.speculation,
                                   "stream_options": {"include_usage": True}}

    def read(self, event):
        piece = event["choices"][0]["text"] if event["choices"] else ""
        return piece, (event.get("usage") or {}).get("completion_tokens")

    def tokenize(self, question):
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
        with post(self.url + "/tokenize", {"messages": messages}) as answer:
            return json.load(answer)["tokens"]


class Llama(Asked, LlamaServer):
    def request(self, prompt, tokens):
        return "/completion", {"prompt": prompt, "n_predict": tokens, "temperature": 0,
                               "cache_prompt": False}

    def read(self, event):
        return event["content"], event.get("tokens_predicted")


class OpenVino(Engine):
    def __init__(self, arguments, log, mode):
        super().__init__([PEERS / "openvino/venv/bin/python", HERE / "openvino_worker.py",
                          arguments.model, arguments.threads, mode], log,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("OpenVINO's process ended")
        return json.loads(line)

    def ask(self, prompt, tokens):
        print(json.dumps({"prompt": prompt, "tokens": tokens}), file=self.process.stdin, flush=True)
        said = self.read()
        return {"answer": said["ids"], "tokens": len(said["ids"]), "ttft": said["ttft"],
                "seconds": said["seconds"]}


# Name: (how it starts, the engine whose answers it must give). Each one's speculation is the one that
# needs no second model, with its own defaults where it has any.
ENGINES = {
    "clover, plain": (lambda a, log: Clover(a, log, "off"), None),
    "clover": (lambda a, log: Clover(a, log, "auto"), "clover, plain"),
    "llama.cpp, plain": (Llama, None),
    "llama.cpp, ngram-simple": (lambda a, log: Llama(a, log, 1, "--spec-type", "ngram-simple"),
                                "llama.cpp, plain"),
    "llama.cpp, ngram-cache": (lambda a, log: Llama(a, log, 1, "--spec-type", "ngram-cache"),
                               "llama.cpp, plain"),
    "OpenVINO, plain": (lambda a, log: OpenVino(a, log, "plain"), None),
    "OpenVINO, prompt lookup": (lambda a, log: OpenVino(a, log, "lookup"), "OpenVINO, plain"),
}


def read_questions(path, per_category):
    """(category, first turn), `per_category` of each category, spread over it."""
    found = {}
    for file in sorted(path.glob("*.jsonl")) if path.is_dir() else [path]:
        for line in file.read_text().splitlines():
            question = json.loads(line)
            found.setdefault(question["category"], []).append(question["turns"][0])
    return [(category, all_of[i * len(all_of) // per_category])
            for category, all_of in found.items() for i in range(min(per_category, len(all_of)))]


def measure(arguments, log):
    """{engine: [[answer of each question] of each repeat]}, {engine: MiB} and the categories of the
    questions."""
    asked = Clover(arguments, log, "off")
    questions = read_questions(arguments.questions, arguments.per_category)
    prompts = [asked.tokenize(question) for _, question in questions]
    warm = asked.tokenize("Hello.")
    asked.close()
    runs, memory = {name: [] for name in arguments.only}, dict.fromkeys(arguments.only, 0)
    for repeat in range(arguments.repeats):
        # Anew, so that no engine drafts from what it answered in the repeat before.
        engines = {name: ENGINES[name][0](arguments, log) for name in arguments.only}
        for name, engine in engines.items():  # Nobody's first request is counted.
            engine.ask(warm, 16)
            runs[name].append([])
        for number, prompt in enumerate(prompts):
            turn = (number + repeat) % len(engines)
            order = list(engines)[turn:] + list(engines)[:turn]
            for name in order:
                runs[name][-1].append(engines[name].ask(prompt, arguments.tokens))
        for name, engine in engines.items():
            memory[name] = max(memory[name], engine.memory())
            engine.close()
        print(f"repeat {repeat + 1}: " + ", ".join(f"{name} {speed(answers[-1]):.0f}"
                                                   for name, answers in runs.items()),
              file=sys.stderr)
    return runs, memory, [category for category, _ in questions]


def speed(answers):
    """Tokens/s after the first token, over all answers."""
    return (sum(a["tokens"] - 1 for a in answers if a["tokens"] > 1) /
            sum(a["seconds"] - a["ttft"] for a in answers if a["tokens"] > 1))


def summary(runs, memory, name):
    """One engine's figures. Ratios are those of the repeats of a run."""
    plain = ENGINES[name][1]
    repeats = runs[name]
    result = {
        "tokens_per_second": spread([speed(answers) for answers in repeats]),
        "ttft_ms": spread([statistics.median(a["ttft"] for a in answers) * 1000
                           for answers in repeats]),
        "seconds_per_answer": spread([statistics.mean(a["seconds"] for a in answers)
                                      for answers in repeats]),
        "resident_mib": memory[name],
    }
    if plain in runs:
        result["over_plain"] = spread([speed(a) / speed(b) for a, b in zip(repeats, runs[plain])])
        result["same_as_plain"] = sum(a["answer"] == b["answer"]
                                      for a, b in zip(repeats[0], runs[plain][0]))
    if name != "clover" and "clover" in runs:
        result["clover_over_this"] = spread([speed(b) / speed(a)
                                             for a, b in zip(repeats, runs["clover"])])
    return result


def comparisons(runs, categories, engines, settings):
    """The figures as `clover report` shows them."""
    def of_category(answers, category):
        return speed([a for a, of in zip(answers, categories) if of == category])

    speeds = {name: {category: spread([of_category(answers, category) for answers in repeats])
                     for category in dict.fromkeys(categories)} | {
                         "all": engines[name]["tokens_per_second"]}
              for name, repeats in runs.items()}
    note = (f"{settings['questions']} questions, at most {settings['tokens']} tokens, greedy, "
            f"{settings['repeats']} interleaved runs; one request at a time.")
    everything = [comparison("Clover and its peers", "tokens per second after the first", speeds,
                             note=note)]
    for title, unit, key in (("Time to first token", "ms", "ttft_ms"),
                             ("Time of an answer", "seconds", "seconds_per_answer")):
        everything.append(comparison(f"{title}, Clover and its peers", unit,
                                     {name: {"all": found[key]} for name, found in engines.items()},
                                     less_is_better=True))
    gain = {name: {"all": found["over_plain"]} for name, found in engines.items()
            if "over_plain" in found}
    if gain:
        everything.append(comparison("What speculation brings, Clover and its peers",
                                     "tokens per second over the same engine without it", gain))
    return everything


def markdown(result):
    settings = result["settings"]
    lines = [
        "# Clover and its peers", "",
        f"{result['model']['name']} on {result['machine']['cpu']}, {result['machine']['cores']} cores; "
        f"commit {result['commit']}, {result['date']}. {settings['questions']} questions of this "
        f"project, at most {settings['tokens']} tokens, greedy, one request at a time; median of "
        f"{settings['repeats']} interleaved runs and [min–max]. Tokens/s count from the first token "
        "on, memory is the most that was ever resident.", "",
        "| engine | tokens/s | over its plain | same text as its plain | Clover over it | TTFT ms | "
        "seconds an answer | memory MiB |", "|---|---|---|---|---|---|---|---|"]
    for name, found in result["engines"].items():
        same = found.get("same_as_plain")
        same = "" if same is None else f"{same} of {settings['questions']}"
        lines.append(
            f"| {name} | {cell(found['tokens_per_second'])} | {cell(found.get('over_plain'), 2)} | "
            f"{same} | "
            f"{cell(found.get('clover_over_this'), 2)} | {cell(found['ttft_ms'])} | "
            f"{cell(found['seconds_per_answer'], 2)} | {found['resident_mib']:.0f} |")
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    lines += ["", f"Versions: {versions}. All read the same GGUF file. OpenVINO converts it when it "
              "loads it (its texts depart from the others' early), and its prompt lookup drafts 5 tokens after n-grams of 3; llama.cpp's modes "
              "run with their defaults. Draft models are not compared: none with this vocabulary is "
              "smaller.", "", "Made by `bench/peers/compare_peers.sh`.", ""]
    return "\n".join(lines)


def versions():
    return {peer: (PEERS / folder / "version").read_text().strip()
            for peer, folder in (("llama-cpp-python (its llama.cpp)", "llama.cpp"),
                                 ("openvino-genai", "openvino"))
            if (PEERS / folder / "version").exists()}


def main():
    arguments = parse_arguments()
    with tempfile.TemporaryFile() as log:
        runs, memory, categories = measure(arguments, log)
    settings = {"repeats": arguments.repeats, "tokens": arguments.tokens,
                "questions": len(categories)}
    engines = {name: summary(runs, memory, name) for name in runs}
    result = {
        **origin(arguments),
        "versions": versions(),
        "settings": settings,
        "engines": engines,
        "comparisons": comparisons(runs, categories, engines, settings),
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "peers.json").write_text(json.dumps(result, indent=2) + "\n")
    page = markdown(result)
    (arguments.out / "peers.md").write_text(page)
    print(page, end="")


if __name__ == "__main__":
    main()
