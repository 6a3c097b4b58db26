# SPDX-License-Identifier: Apache-2.0
"""Engines in processes of their own, for comparisons that run several of them at once."""

import json
import pathlib
import socket
import subprocess
import time
import urllib.request

from record import ROOT

PEERS = ROOT / ".cache/peers"
LLAMA = PEERS / "llama.cpp"


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    return urllib.request.urlopen(request, timeout=600)


class Engine:
    """A process that answers."""

    def __init__(self, command, log, **options):
        self.process = subprocess.Popen([str(part) for part in command], stderr=log, **options)

    def memory(self):
        """The most memory that was ever resident, in MiB."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    def close(self):
        self.process.terminate()
        self.process.wait(60)


class Server(Engine):
    """An engine behind HTTP at `url`; constructed when it is ready."""

    def __init__(self, command, log):
        with socket.create_server(("127.0.0.1", 0)) as found:
            port = found.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        super().__init__([*command, "--port", port], log, stdin=subprocess.DEVNULL, stdout=log)
        for _ in range(1200):
            try:
                with urllib.request.urlopen(self.url + "/health", timeout=10):
                    return
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        self.process.kill()
        raise SystemExit(f"{command[0]} did not start")


class CloverServer(Server):
    def __init__(self, arguments, log):
        # Every run reads its prompts: the prefix cache would know them from the run before.
        super().__init__([arguments.clover, "serve", "-m", arguments.model, "-t", arguments.threads,
                          "--parallel", 64, "--no-prefix-cache", "--quiet"], log)


class LlamaServer(Server):
    """llama.cpp's with `slots` requests at once, each with room for 4,096 tokens or the default
    model's context if there is one slot only."""

    def __init__(self, arguments, log, slots=1, *options):
        context = 8192 if slots == 1 else 4096 * slots
        super().__init__([LLAMA / "build/bin/llama-server", "-m", arguments.model, "-t",
                          arguments.threads, "-c", context, "-np", slots, "--no-webui", *options],
                         log)
