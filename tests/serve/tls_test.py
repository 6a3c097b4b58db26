# SPDX-License-Identifier: Apache-2.0
"""The server over TLS. Usage: tls_test.py CLOVER MODEL"""

import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time

import httpx2
import openai

from server import Server

CLOVER, MODEL = sys.argv[1:3]


def make_certificate(folder, name, *options):
    """Paths of a self-signed certificate for localhost and its key."""
    cert, key = os.path.join(folder, name + ".pem"), os.path.join(folder, name + ".key")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
        + ["-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost"]
        + ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", *(options or ["-nodes"])],
        check=True,
        capture_output=True,
    )
    return cert, key


def refused(*options):
    """What the server says when it does not start."""
    run = subprocess.run(
        [CLOVER, "serve", "-m", MODEL, "--port", "0", *options], capture_output=True, text=True
    )
    assert run.returncode in (1, 2) and run.stdout == "", run
    return run.stderr


def check_files(folder, cert, key):
    other, other_key = make_certificate(folder, "other")
    locked = make_certificate(folder, "locked", "-passout", "pass:secret")[1]
    missing = os.path.join(folder, "missing.pem")
    garbage = os.path.join(folder, "garbage.pem")
    with open(garbage, "wb") as file:
        file.write(os.urandom(5000))
    for bad_cert, bad_key in (
        (missing, key),
        (cert, missing),
        (garbage, key),
        (cert, garbage),
        (cert, other_key),
        (cert, locked),
        (folder, key),
    ):
        said = refused("--tls-cert", bad_cert, "--tls-key", bad_key)
        bad = bad_cert if bad_cert != cert else bad_key
        assert bad in said and said.count("\n") == 1, said
    assert "--tls-key" in refused("--tls-cert", cert)
    assert "--tls-cert" in refused("--tls-key", key)


def check_clients(server, cert):
    base = f"https://localhost:{server.port}"
    # Its certificate is checked by clients, and theirs is the choice.
    try:
        httpx2.get(base + "/health")
        raise AssertionError("an unknown certificate was taken")
    except httpx2.ConnectError:
        pass
    with httpx2.Client(verify=ssl.create_default_context(cafile=cert)) as client:
        assert client.get(base + "/health").json() == {"status": "ok"}
        api = openai.OpenAI(base_url=base + "/v1", api_key="none", http_client=client)
        fields = {
            "model": api.models.list().data[0].id,
            "messages": [{"role": "user", "content": "Name three rivers."}],
            "max_tokens": 60,
            "temperature": 0,
        }
        whole = api.chat.completions.create(**fields).choices[0].message.content
        stream = api.chat.completions.create(**fields, stream=True)
        assert "".join(c.choices[0].delta.content or "" for c in stream) == whole and whole
        # Big bodies pass through many records.
        text = "word " * 200000
        answer = client.post(base + "/tokenize", json={"prompt": text})
        assert answer.status_code == 200 and answer.json()["count"] > 200000
    # The oldest protocols are gone, the newest are there.
    for option, works in (("-tls1_1", False), ("-tls1_2", True), ("-tls1_3", True)):
        run = subprocess.run(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-CAfile", cert]
            + ["-verify_return_error", "-quiet", option],  # -quiet: reads on when stdin has ended
            input="GET /health HTTP/1.1\r\nConnection: close\r\n\r\n",
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert ("200 OK" in run.stdout) == works, (option, run)


def check_hostile(server):
    def answer_to(data, wait=0.0):
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as plain:
            plain.sendall(data)
            time.sleep(wait)
            got = b""
            while piece := plain.recv(65536):  # an end, no reset
                got += piece
            return got

    # Plain HTTP and noise at a port with TLS: a clean close.
    for data in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\0" * 100, b"\0"):
        assert b"HTTP" not in answer_to(data + os.urandom(20000) if data != b"\0" else data)
    server.alive()
    # Silence: the handshake has a deadline (ten seconds).
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as silent:
        begin = time.time()
        assert silent.recv(1) == b""
        assert 5 < time.time() - begin < 20
    server.alive()


def start_long(server, stream):
    body = json.dumps({"prompt": "Once", "max_tokens": 1500, "ignore_eos": True, "stream": stream})
    connection = server.connect()
    connection.sendall(
        b"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body) + body.encode()
    )
    return connection


def check_gone_clients(server):
    """C13 under TLS, with and without a goodbye."""
    for stream in (True, False):
        for polite in (True, False):
            connection = start_long(server, stream)
            while server.metric("num_requests_running") == 0:
                time.sleep(0.01)
            if stream:
                assert connection.recv(1000)
            if polite:
                try:
                    connection.unwrap()
                except (ssl.SSLError, OSError):
                    pass  # more of the stream was on its way
            connection.close()
            server.quiet(5)
    # The next request may come while the first is answered.
    body = b'{"prompt": "Once", "max_tokens": 40, "ignore_eos": true}'
    request = (
        b"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body) + body
    )
    with server.connect() as connection:
        connection.sendall(request)
        time.sleep(0.05)
        connection.sendall(request[:30])
        time.sleep(0.05)
        connection.sendall(request[30:].replace(b"HTTP/1.1\r\n", b"HTTP/1.1\r\nConnection: close\r\n"))
        got = b""
        while piece := connection.recv(65536):
            got += piece
        assert got.count(b"200 OK") == 2, got


def main():
    with tempfile.TemporaryDirectory() as folder:
        cert, key = make_certificate(folder, "server")
        check_files(folder, cert, key)
        tls = ssl.create_default_context(cafile=cert)
        options = ("-m", MODEL, "--tls-cert", cert, "--tls-key", key)
        with Server(CLOVER, *options, tls=tls) as server:
            handles = server.handles()
            check_clients(server, cert)
            check_hostile(server)
            check_gone_clients(server)
            time.sleep(2.5)  # the last connections linger
            assert server.handles() <= handles + 3, (server.handles(), handles)
            with server.connect():
                assert server.stop() < 2


main()
