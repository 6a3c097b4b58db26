# SPDX-License-Identifier: Apache-2.0
"""A server of our own for a test: started, waited for, stopped."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time


class Server:
    def __init__(self, clover, *options, wait=True, tls=None):
        self.tls = tls  # an ssl.SSLContext that trusts the server
        self.log = tempfile.TemporaryFile("w+")
        # One thread: two that wait for each other crawl when the machine has other work.
        command = [clover, "serve", "-t", "1", *options]
        if "--port" not in options:
            command += ["--port", "0"]
        self.process = subprocess.Popen(command, stderr=self.log, stdout=subprocess.DEVNULL)
        self.port = None
        if wait:
            self.wait()

    def wait(self):
        """Until the server says where it listens, which it does once the model is there."""
        deadline = time.time() + 120
        while time.time() < deadline:
            found = re.search(r" at https?://[^:]+:(\d+),", self.text())
            if found:
                self.port = int(found.group(1))
                return
            assert self.process.poll() is None, f"the server ended: {self.text()}"
            time.sleep(0.05)
        raise AssertionError("the server did not start")

    def text(self):
        self.log.flush()
        size = os.fstat(self.log.fileno()).st_size
        return os.pread(self.log.fileno(), size, 0).decode()

    def request(self, method, path, body=None, headers=None):
        """(status, headers, body) over a connection of its own."""
        if self.tls is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        else:
            connection = http.client.HTTPSConnection(
                "localhost", self.port, timeout=120, context=self.tls
            )
        try:
            headers = dict(headers or {})
            if body is not None and not isinstance(body, (bytes, str)):
                body = json.dumps(body)
            if body is not None:
                headers.setdefault("Content-Type", "application/json")
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    def get(self, path):
        status, _, body = self.request("GET", path)
        assert status == 200, (path, status, body)
        return body.decode()

    def post(self, path, body):
        status, _, answer = self.request("POST", path, body)
        return status, json.loads(answer)

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        if self.tls is not None:
            connection = self.tls.wrap_socket(connection, server_hostname="localhost")
        return connection

    def raw(self, data):
        """What comes back for bytes, until the server closes or is silent for a while."""
        with self.connect() as client:
            client.settimeout(5)
            answer = b""
            try:
                client.sendall(data)
                while piece := client.recv(65536):
                    answer += piece
            except (TimeoutError, ConnectionError):
                pass
            return answer

    def metric(self, name):
        found = re.search(rf"^clover:{name} (\S+)$", self.get("/metrics"), re.M)
        assert found, name
        return float(found.group(1))

    def alive(self):
        assert self.process.poll() is None, self.text()
        assert json.loads(self.get("/health")) == {"status": "ok"}

    def quiet(self, seconds=20):
        """Waits until no request is left; everything must have been given back then."""
        deadline = time.time() + seconds
        while self.metric("num_requests_running") + self.metric("num_requests_waiting") > 0:
            assert time.time() < deadline, self.get("/metrics")
            time.sleep(0.02)
        kept = self.metric("kv_blocks_free") + self.metric("kv_blocks_cached")
        assert kept == self.metric("kv_blocks"), self.get("/metrics")

    def handles(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def resident_mib(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1)) / 1024

    def stop(self, sign=signal.SIGTERM):
        """Seconds that it took to end; the exit status must be 0."""
        begin = time.time()
        self.process.send_signal(sign)
        status = self.process.wait(60)
        assert status == 0, (status, self.text())
        return time.time() - begin

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log.close()
