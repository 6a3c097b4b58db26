# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/constraint/cases.json: random schemas of the supported keywords, documents, and
whether the `jsonschema` package (PyPI) finds them valid. Usage: make_constraint_cases.py [SEED]

Documents are written in the order of the properties and with nothing that the grammar leaves out on
purpose (numbers of many digits, properties where the schema is silent about further ones), so that
the grammar accepts exactly those that are valid."""

import json
import pathlib
import random
import sys

import jsonschema

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/data/constraint/cases.json"
TEXTS = ["", "a", "ab", "abc", "é", "😀x", "\n", 'q"', "longer text", "\\"]
NAMES = ["a", "b", "ab", "c d", "é", "x"]


def random_schema(rng, depth=0):
    kinds = ["string", "integer", "number", "boolean", "null", "enum", "const", "many"]
    if depth < 3:
        kinds += ["object", "array", "anyOf", "tuple"] * 2
    kind = rng.choice(kinds)
    if kind == "string":
        schema = {"type": "string"}
        if rng.random() < 0.5:
            schema["minLength"] = rng.randint(0, 2)
        if rng.random() < 0.5:
            schema["maxLength"] = rng.randint(2, 4)
        return schema
    if kind in ("integer", "number"):
        schema = {"type": kind}
        low = rng.choice([-20, -1, 0, 3, 0.5, -2.25])
        if rng.random() < 0.6:
            schema[rng.choice(["minimum", "exclusiveMinimum"])] = low
        if rng.random() < 0.6:
            schema[rng.choice(["maximum", "exclusiveMaximum"])] = low + rng.choice([2, 15, 120.5])
        return schema
    if kind in ("boolean", "null"):
        return {"type": kind}
    if kind == "enum":
        return {"enum": rng.sample(["a", "ab", 1, 12, 1.5, None, True], 3)}
    if kind == "const":
        return {"const": rng.choice(TEXTS)}
    if kind == "many":
        return {"type": rng.sample(["string", "integer", "boolean", "null"], 2)}
    if kind == "anyOf":
        return {"anyOf": [random_schema(rng, depth + 1) for _ in range(rng.randint(1, 3))]}
    if kind == "array":
        schema = {"type": "array", "items": random_schema(rng, depth + 1)}
        if rng.random() < 0.4:
            schema["minItems"] = rng.randint(0, 2)
        if rng.random() < 0.4:
            schema["maxItems"] = rng.randint(2, 4)
        return schema
    if kind == "tuple":
        first = [random_schema(rng, depth + 1) for _ in range(rng.randint(1, 2))]
        return {"type": "array", "prefixItems": first, "items": rng.choice([False, {"type": "null"}])}
    names = rng.sample(NAMES, rng.randint(0, 4))
    schema = {"type": "object", "properties": {n: random_schema(rng, depth + 1) for n in names}}
    schema["required"] = [n for n in names if rng.random() < 0.5]
    schema["additionalProperties"] = rng.choice([False, False, {"type": "integer"}])
    return schema


def random_value(rng, depth=0):
    kind = rng.randint(0, 7 if depth < 3 else 5)
    if kind == 0:
        return None
    if kind == 1:
        return rng.random() < 0.5
    if kind in (2, 3):
        return rng.choice([0, 1, 2, 5, 12, -1, -20, 100, 0.5, 1.5, -2.25, 3.25])
    if kind in (4, 5):
        return rng.choice(TEXTS)
    if kind == 6:
        return [random_value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    return {n: random_value(rng, depth + 1) for n in rng.sample(NAMES, rng.randint(0, 3))}


def near_value(rng, schema, depth=0):
    """A value that the schema may well accept."""
    if rng.random() < 0.04:
        return random_value(rng)
    if "anyOf" in schema:
        return near_value(rng, rng.choice(schema["anyOf"]), depth)
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "const" in schema:
        return schema["const"]
    kind = schema["type"]
    if isinstance(kind, list):
        kind = rng.choice(kind)
    if kind == "null":
        return None
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "string":
        return rng.choice(TEXTS)
    if kind in ("integer", "number"):
        bounds = [v for k, v in schema.items() if isinstance(v, (int, float)) and not isinstance(v, bool)]
        number = rng.choice(bounds or [0]) + rng.choice([-1, 0, 0, 1, 10])
        if kind == "integer":
            return int(number)
        return rng.choice([number, number + 0.5, int(number)])
    if kind == "array":
        first = [near_value(rng, s, depth + 1) for s in schema.get("prefixItems", [])]
        if schema["items"] is not False:
            count = rng.randint(schema.get("minItems", 0), schema.get("maxItems", 3))
            first += [near_value(rng, schema["items"], depth + 1) for _ in range(count)]
        return first[: rng.randint(0, len(first))] if rng.random() < 0.15 else first
    value = {}
    for name, inner in schema["properties"].items():
        if name in schema["required"] or rng.random() < 0.5:
            value[name] = near_value(rng, inner, depth + 1)
    free = [n for n in NAMES if n not in schema["properties"]]
    if free and rng.random() < 0.3:
        value[rng.choice(free)] = rng.choice([1, 2, "x"])
    return value


def ordered(value):
    """Whether every number is written as the grammar writes it: not 5.0 where 5 is meant."""
    if isinstance(value, float) and value == int(value):
        return False
    if isinstance(value, list):
        return all(map(ordered, value))
    if isinstance(value, dict):
        return all(map(ordered, value.values()))
    return True


def in_order(value, schema):
    """Whether the declared properties come in the schema's order, wherever they are."""
    if isinstance(value, dict):
        for part in schemas_of(schema):
            if part.get("type") == "object":
                declared = list(part["properties"])
                at = [declared.index(n) for n in value if n in declared]
                if at != sorted(at):
                    return False
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return all(in_order(child, schema) for child in children)


def schemas_of(schema):
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from schemas_of(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from schemas_of(value)


def main():
    rng = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    cases = []
    while len(cases) < 220:
        schema = random_schema(rng)
        validator = jsonschema.Draft202012Validator(schema)
        documents = {}
        for _ in range(30):
            value = near_value(rng, schema)
            if not ordered(value) or not in_order(value, schema):
                continue
            style = rng.choice([{"separators": (",", ":")}, {}, {"indent": 2}, {"indent": 4}])
            text = json.dumps(value, ensure_ascii=rng.random() < 0.3 and "😀" not in str(value), **style)
            if "\\u" in text and ("const" in str(schema) or '\\u00e9":' in text):
                continue  # given values are spelled in one way, names have no escapes
            documents[text] = validator.is_valid(value)
        if any(documents.values()):
            listed = [{"text": text, "valid": valid} for text, valid in sorted(documents.items())]
            cases.append({"schema": schema, "documents": listed[:12]})
    OUT.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    OUT.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(OUT, len(cases), sum(len(c["documents"]) for c in cases))


main()
