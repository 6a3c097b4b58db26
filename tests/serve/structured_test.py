# SPDX-License-Identifier: Apache-2.0
"""Answers that keep a schema, judged by the `jsonschema` package.
Usage: structured_test.py CLOVER MODEL [ANSWERS]"""

import concurrent.futures
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time
from typing import Annotated

import jsonschema
import openai
from pydantic import BaseModel, Field

from server import Server

CLOVER, MODEL = sys.argv[1:3]
ANSWERS = int(sys.argv[3]) if len(sys.argv) > 3 else 62  # with random schemas
CASES = pathlib.Path(__file__).parents[1] / "data/constraint/cases.json"


Word = Annotated[str, Field(max_length=30)]


class Person(BaseModel):
    name: Word
    age: int
    hobbies: list[Word] = Field(max_length=4)
    partner: Word | None


QUESTION = "Describe a person: name, age, hobbies and partner."


def user(text):
    return [{"role": "user", "content": text}]


def format_of(schema):
    return {"type": "json_schema", "json_schema": {"name": "it", "strict": True, "schema": schema}}


def check_client(server):
    """What the openai package sends for a pydantic model, streamed or not, with drafts or without."""
    api = openai.OpenAI(
        base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0
    )
    name = api.models.list().data[0].id
    parsed = api.chat.completions.parse(
        model=name, messages=user(QUESTION), response_format=Person, temperature=0, max_tokens=400
    ).choices[0]
    assert parsed.finish_reason == "stop", parsed
    assert isinstance(parsed.message.parsed, Person)
    asked = dict(
        model=name,
        messages=user(QUESTION),
        response_format=format_of(Person.model_json_schema()),
        max_tokens=300,
        seed=3,
    )
    for temperature in (0, 1):
        texts = set()
        for speculation in ("auto", "off", {"nodes": 4}):
            answer = api.chat.completions.create(
                temperature=temperature, extra_body={"speculation": speculation}, **asked
            ).choices[0]
            texts.add((answer.message.content, answer.finish_reason))
            streamed = list(
                api.chat.completions.create(
                    temperature=temperature,
                    extra_body={"speculation": speculation},
                    stream=True,
                    **asked,
                )
            )
            text = "".join(c.choices[0].delta.content or "" for c in streamed)
            texts.add((text, streamed[-1].choices[0].finish_reason))
        assert len(texts) == 1, texts
        ((text, finish),) = texts
        if finish == "stop":
            Person.model_validate_json(text)
    thing = api.chat.completions.create(
        model=name,
        messages=user("Give me a JSON object with a city and its country."),
        response_format={"type": "json_object"},
        temperature=0,
        max_tokens=300,
        logprobs=True,
    ).choices[0]
    assert thing.finish_reason == "stop" and isinstance(json.loads(thing.message.content), dict)
    assert all(token.logprob <= 0 for token in thing.logprobs.content)
    plain = [
        api.chat.completions.create(
            model=name, messages=user("Hi"), temperature=0, max_tokens=20, **more
        )
        .choices[0]
        .message.content
        for more in ({}, {"response_format": {"type": "text"}})
    ]
    assert plain[0] == plain[1]
    # Text completions take the field as well.
    listed = api.completions.create(
        model=name,
        prompt="Three primes: ",
        temperature=0,
        max_tokens=60,
        extra_body={
            "response_format": format_of(
                {"type": "array", "items": {"type": "integer"}, "minItems": 3, "maxItems": 3}
            )
        },
    ).choices[0]
    assert listed.finish_reason == "stop" and len(json.loads(listed.text)) == 3, listed


def check_random_schemas(server):
    """D10: wild sampling, many at once, with drafts: what ends is valid."""
    rng = random.Random(5)
    cases = json.loads(CASES.read_text(encoding="utf-8"))
    schemas = [case["schema"] for case in rng.sample(cases, min(len(cases), max(0, ANSWERS - 2)))]
    schemas += [{"type": "object"}, {"$ref": "#/$defs/t", "$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}}]

    def ask(job):
        number, schema = job
        answers = []
        for speculation in ("auto", "off"):
            status, answer = server.post(
                "/v1/chat/completions",
                {
                    "messages": user(f"Give me some JSON, with numbers and words: {number}, 3.5, \"abc\"."),
                    "response_format": format_of(schema),
                    "temperature": 1.5,
                    "seed": number,
                    "max_tokens": 160,
                    "speculation": speculation,
                },
            )
            assert status == 200, (schema, answer)
            choice = answer["choices"][0]
            answers.append((choice["message"]["content"], choice["finish_reason"]))
        assert answers[0] == answers[1], (schema, answers)
        text, finish = answers[0]
        if finish == "stop":
            jsonschema.Draft202012Validator(schema).validate(json.loads(text))
        return finish == "stop"

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        ended = sum(pool.map(ask, ((i, schemas[i % len(schemas)]) for i in range(ANSWERS))))
    assert ended > ANSWERS * 0.6, (ended, ANSWERS)
    print(f"{ended} of {ANSWERS} random answers ended, all of them valid")


def check_refusals(server):
    def refused(response_format, *words, **more):
        status, answer = server.post(
            "/v1/chat/completions",
            {"messages": user("hi"), "response_format": response_format, "max_tokens": 5, **more},
        )
        assert status == 400, (response_format, answer)
        error = answer["error"]
        assert error["type"] == "invalid_request_error", error
        for word in words:
            assert word in error["message"], (word, error)
        return error["param"]

    deep = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^a+$"}}}
    assert refused(format_of(deep), "#/properties/a", "'pattern'") == "response_format"
    # D12, F8: what does not compile is an error, never ignored.
    for schema in (
        {"type": "nothing"},
        {"$ref": "#"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"type": "string", "minLength": 10**9},
        {"type": "array", "items": {}, "minItems": 10**300},
        {"enum": []},
        {"properties": {f"p{i}": {} for i in range(5000)}},
        {"anyOf": [{"type": "object"}] * 100},
        {"type": "string", "format": "date"},
        5,
        [],
    ):
        assert refused(format_of(schema)) == "response_format", schema
    assert refused({"type": "grammar"}) == "response_format.type"
    assert refused({"type": "json_schema", "json_schema": {"name": "x"}}).startswith("response_f")
    assert refused({"type": "json_object"}, ignore_eos=True) == "ignore_eos"
    nested = '{"items":' * 100000 + "{}" + "}" * 100000
    status, _, body = server.request(
        "POST",
        "/v1/chat/completions",
        '{"messages":[{"role":"user","content":"hi"}],"response_format":{"type":"json_schema",'
        '"json_schema":{"name":"x","schema":' + nested + "}}}",
    )
    assert status == 400 and b"nests" in body, (status, body[:200])
    server.alive()


def check_command_line():
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(Person.model_json_schema(), file)
        file.flush()
        command = [CLOVER, "generate", "-m", MODEL, "--chat", "-p", QUESTION, "--quiet", "-n", "400"]
        said = subprocess.run(
            [*command, "-j", file.name], check=True, capture_output=True, text=True
        ).stdout
        Person.model_validate_json(said)
        file.seek(0)
        file.write('{"not":{}}' + " " * 10)
        file.truncate()
        file.flush()
        failed = subprocess.run([*command, "-j", file.name], capture_output=True, text=True)
        assert failed.returncode == 1 and "'not' is not supported" in failed.stderr, failed


def main():
    with Server(CLOVER, "-m", MODEL) as server:
        for check in (check_client, check_random_schemas, check_refusals):
            begin = time.time()
            check(server)
            server.quiet()
            server.alive()
            print(f"{check.__name__}: {time.time() - begin:.1f} s", flush=True)
    check_command_line()


main()
