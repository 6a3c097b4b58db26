# SPDX-License-Identifier: Apache-2.0
"""How long running streams wait while a long prompt arrives."""

import http.client
import json
import sys
import threading
import time
import urllib.parse

from record import comparison, spread
from servers import post

WORDS = "river stone cloud house bread light music paper garden winter".split()


def long_prompt(url, number, tokens=4000):
    """Text of about so many tokens that no other prompt begins like."""
    text = " ".join(f"{number} {WORDS[(i * 7 + number) % 10]} {i % 97}" for i in range(tokens))
    with post(url + "/tokenize", {"prompt": text}) as answer:
        ids = json.load(answer)["tokens"]
    return ids[:tokens]


class Stream(threading.Thread):
    """A running answer; `times` are those of its pieces of text."""

    def __init__(self, url, number, speculation):
        super().__init__()
        self.url = url
        self.times = []
        self.done = False
        self.body = {
            "messages": [{"role": "user", "content": f"Tell me a long story of {WORDS[number]}."}],
            "max_tokens": 1500,
            "ignore_eos": True,
            "stream": True,
            "speculation": speculation,
        }

    def run(self):
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(self.url).netloc, timeout=600)
        head = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps(self.body), head)
        response = connection.getresponse()
        while not self.done and (line := response.readline()):
            if line.startswith(b"data: {"):
                self.times.append(time.perf_counter())
        connection.close()

    def longest_gap(self, begin, end):
        inside = [t for t in self.times if begin <= t <= end]
        return max((b - a for a, b in zip(inside, inside[1:])), default=0.0) * 1000


def measure(url, streams, speculation, number):
    running = [Stream(url, i, speculation) for i in range(streams)]
    for stream in running:
        stream.start()
    while not all(len(s.times) > 20 for s in running):
        time.sleep(0.01)
    begin = time.perf_counter()
    time.sleep(1.0)
    quiet = time.perf_counter()
    body = {"prompt": long_prompt(url, number), "max_tokens": 1, "stream": False}
    arrives = time.perf_counter()
    with post(url + "/v1/completions", body) as answer:
        usage = json.load(answer)["usage"]
    read = time.perf_counter()
    time.sleep(0.1)
    for stream in running:
        stream.done = True
    for stream in running:
        stream.join()
    return {
        "streams": streams,
        "speculation": speculation,
        "prompt_tokens": usage["prompt_tokens"],
        "prompt_ms": (read - arrives) * 1000,
        "longest_gap_ms": max(s.longest_gap(arrives - 0.05, read + 0.1) for s in running),
        "longest_gap_before_ms": max(s.longest_gap(begin, quiet) for s in running),
    }


def compare(url, repeats):
    """The longest gaps of 1 and 8 streams, without and with speculation, as a comparison."""
    gaps, took = {"Clover, plain": {}, "Clover": {}}, []
    for _ in range(repeats):
        for streams in (1, 8):
            for side, speculation in zip(gaps, ("off", "auto")):
                run = measure(url, streams, speculation, len(took))
                print(json.dumps(run), file=sys.stderr, flush=True)
                took.append(run["prompt_ms"])
                group = f"{streams} stream{'' if streams == 1 else 's'}"
                gaps[side].setdefault(group, []).append(run["longest_gap_ms"])
    return comparison(
        "Longest gap in running streams while a prompt of 4,000 tokens arrives", "ms",
        {side: {group: spread(runs) for group, runs in found.items()}
         for side, found in gaps.items()},
        note=f"The prompt takes {min(took) / 1000:.1f} to {max(took) / 1000:.1f} s.",
        less_is_better=True)
