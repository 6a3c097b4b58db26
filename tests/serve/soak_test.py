# SPDX-License-Identifier: Apache-2.0
"""Many requests of all kinds, cancelled, wrong and right ones; at the end everything is as it was.
Usage: soak_test.py CLOVER MODEL [REQUESTS [SEED]]"""

import json
import random
import socket
import sys
import threading
import time

from server import Server

CLOVER, MODEL = sys.argv[1:3]
REQUESTS = int(sys.argv[3]) if len(sys.argv) > 3 else 300
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else 1
CLIENTS = 24
SUBJECTS = "rivers planets birds tools fruits cities poets bridges metals winds".split()
TASKS = (
    "Name three {}.",
    "Write a short rhyme about {}.",
    "Explain {} to a child, then explain {} again.",
    "List five {} and repeat the list.",
)


def question(dice):
    return dice.choice(TASKS).replace("{}", dice.choice(SUBJECTS))


def good_request(dice):
    """(path, body) of a request that must be answered."""
    body = {
        "max_tokens": dice.randint(1, 40),
        "temperature": dice.choice((0, 0, 0.7, 1.2)),
        "seed": dice.randint(0, 99),
        "stream": dice.random() < 0.5,
        "speculation": dice.choice(("off", "auto", "auto", {"nodes": dice.randint(0, 12)})),
    }
    if dice.random() < 0.1:
        body["n"] = dice.randint(2, 3)
    if dice.random() < 0.2:
        body["stop"] = dice.choice((["\n"], [".", "!"], [" the"]))
    if dice.random() < 0.2:
        body["frequency_penalty"] = 0.8
    if dice.random() < 0.1:
        body["ignore_eos"] = True
    if body["stream"] and dice.random() < 0.5:
        body["stream_options"] = {"include_usage": True}
    if dice.random() < 0.7:
        body["messages"] = [{"role": "user", "content": question(dice)}]
        if dice.random() < 0.2:
            body["logprobs"] = True
            body["top_logprobs"] = dice.randint(0, 5)
        if dice.random() < 0.2 and body["speculation"] == "auto":
            body["prediction"] = {"type": "content", "content": question(dice) * 5}
        return "/v1/chat/completions", body
    body["prompt"] = question(dice) * dice.choice((1, 1, 1, 40))
    if dice.random() < 0.3:
        body["logprobs"] = dice.randint(0, 3)
        body["echo"] = dice.random() < 0.5
        body["max_tokens"] = dice.choice((0, body["max_tokens"]))
    return "/v1/completions", body


def bad_request(dice):
    """(path, body, status)"""
    path, body = good_request(dice)
    kind = dice.randrange(6)
    if kind == 0:
        return path, {**body, "temperature": -1}, 400
    if kind == 1:
        return path, {**body, "unknown": 1}, 400
    if kind == 2:
        return path, {**body, "model": "other"}, 404
    if kind == 3:
        return "/v1/completions", {"prompt": [7] * 9000}, 400
    if kind == 4:
        return path, "{" * 1000, 400
    return "/v1/nothing", body, 404


class Soak:
    def __init__(self, server):
        self.server = server
        self.lock = threading.Lock()
        self.left = REQUESTS
        self.failures = []
        self.counts = dict.fromkeys(("right", "wrong", "cancelled", "garbage", "repeated"), 0)
        self.usage = {"prompt_tokens": 0, "completion_tokens": 0}
        self.warm = None
        self.known = []  # requests whose text is known, with the text

    def learn(self):
        """The texts of some requests, asked alone and without drafts."""
        dice = random.Random(SEED)
        while len(self.known) < 12:
            path, body = good_request(dice)
            if "prediction" in body:
                del body["prediction"]
            body.pop("stream_options", None)
            body = {**body, "stream": False, "speculation": "off"}
            status, answer = self.server.post(path, body)
            assert status == 200, answer
            self.known.append((path, body, self.texts(answer)))

    def fill_memory(self):
        """Every block of KV memory has been written to: it takes its place from now on."""
        dice = random.Random(SEED)
        for _ in range(12):
            prompt = [dice.randrange(1000, 20000) for _ in range(800)]
            status, answer = self.server.post("/v1/completions", {"prompt": prompt, "max_tokens": 1})
            assert status == 200, answer

    @staticmethod
    def texts(answer):
        return [
            c["text"] if "text" in c else c["message"]["content"] for c in answer["choices"]
        ]

    def take(self):
        with self.lock:
            if self.left == 0 or self.failures:
                return 0
            self.left -= 1
            if self.left == REQUESTS * 3 // 4:
                self.warm = self.server.resident_mib()
            return REQUESTS - self.left

    def count(self, kind):
        with self.lock:
            self.counts[kind] += 1

    def one(self, dice):
        lot = dice.random()
        if lot < 0.10:
            path, body, expected = bad_request(dice)
            status, _, answer = self.server.request("POST", path, body)
            assert status == expected, (status, expected, body, answer)
            self.count("wrong")
        elif lot < 0.30:
            self.cancel(dice)
            self.count("cancelled")
        elif lot < 0.32:
            with self.server.connect() as client:
                client.sendall(dice.randbytes(dice.randint(1, 3000)))
            self.count("garbage")
        elif lot < 0.45:
            path, body, texts = dice.choice(self.known)
            body = {**body, "speculation": dice.choice(("off", "auto", {"nodes": 5}))}
            status, answer = self.server.post(path, body)
            assert status == 200 and self.texts(answer) == texts, (body, texts, answer)
            self.count("repeated")
            self.account(answer["usage"])
        else:
            path, body = good_request(dice)
            status, _, answer = self.server.request("POST", path, body)
            assert status == 200, (body, answer)
            self.count("right")
            if body["stream"]:
                events = answer.decode().split("\n\n")
                assert events[-2] == "data: [DONE]", answer[-300:]
                if "stream_options" in body:
                    self.account(json.loads(events[-3].removeprefix("data: "))["usage"])
            else:
                self.account(json.loads(answer)["usage"])

    def account(self, usage):
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
        with self.lock:
            for name in self.usage:
                self.usage[name] += usage[name]

    def cancel(self, dice):
        path, body = good_request(dice)
        body.update(max_tokens=400, ignore_eos=True)
        data = json.dumps(body).encode()
        with self.server.connect() as client:
            client.sendall(
                b"POST %s HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                % (path.encode(), len(data))
                + data[: dice.choice((len(data), len(data), len(data) // 2))]
            )
            client.settimeout(dice.choice((0.001, 0.05, 0.3)))
            try:
                while client.recv(dice.choice((1, 4096))) and dice.random() < 0.7:
                    pass
            except TimeoutError:
                pass
            if dice.random() < 0.5:  # a reset instead of an end
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    def work(self, worker):
        dice = random.Random(SEED * 1000 + worker)
        while number := self.take():
            try:
                self.one(dice)
            except BaseException as error:  # pylint: disable=broad-except
                self.failures.append((number, repr(error)[:3000]))

    def run(self):
        threads = [threading.Thread(target=self.work, args=(i,)) for i in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not self.failures, self.failures


def wait_for_handles(server, handles):
    deadline = time.time() + 10
    while server.handles() > handles:
        assert time.time() < deadline, (server.handles(), handles)
        time.sleep(0.1)


def check_idle(server):
    """500 connections that ask nothing and 64 that do."""
    before = server.resident_mib()
    idle = [server.connect() for _ in range(500)]
    for connection in idle[::2]:  # half of them have asked before
        connection.sendall(b"GET /health HTTP/1.1\r\n\r\n")
        assert b"200 OK" in connection.recv(4096)
    with_idle = server.resident_mib()
    answers = []

    def ask(number):
        body = {"prompt": f"{number} times", "max_tokens": 16, "ignore_eos": True}
        answers.append(server.post("/v1/completions", body))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [status for status, _ in answers] == [200] * 64
    assert server.metric("num_connections") >= 500
    for connection in idle:
        connection.close()
    kib = (with_idle - before) * 1024 / 500
    assert kib < 64, kib
    print(f"500 idle connections: {kib:.1f} KiB each; with 64 active: {server.resident_mib():.0f} MiB")


def main():
    # Memory for a part of the load, so that requests have to wait and to give way.
    options = ("-c", "2048", "--parallel", "16", "--max-queue", "200", "--kv-tokens", "2560")
    with Server(CLOVER, "-m", MODEL, *options) as server:
        soak = Soak(server)
        soak.learn()
        soak.fill_memory()
        time.sleep(2.5)  # connections linger for two seconds
        handles = server.handles()
        begin = time.time()
        soak.run()
        seconds = time.time() - begin
        server.quiet()
        server.alive()
        wait_for_handles(server, handles)
        # I11: nobody was charged for what the engine did not do.
        for name, counted in (("prompt_tokens", "prompt_tokens_total"),
                              ("completion_tokens", "generation_tokens_total")):
            assert 0 < soak.usage[name] <= server.metric(counted), name
        end = server.resident_mib()
        print(json.dumps({"requests": REQUESTS, "seconds": round(seconds), **soak.counts,
                          "handles": handles, "mib_after_a_quarter": round(soak.warm, 1),
                          "mib_at_the_end": round(end, 1),
                          "preemptions": server.metric("num_preemptions_total"),
                          "accepted": server.metric("spec_decode_num_accepted_tokens_total")}))
        assert end < soak.warm + 25 + 0.02 * soak.warm, (soak.warm, end)
        check_idle(server)
        server.quiet()
        wait_for_handles(server, handles)
        assert server.stop() < 5


main()
