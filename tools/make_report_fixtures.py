# SPDX-License-Identifier: Apache-2.0
"""Writes the result files under tests/data/report: scripted figures in the shapes of `bench decode`,
`bench kernels`, `eval` and the scripts of bench/peers, with round numbers whose tables can be
checked by hand."""

import json
import pathlib

OUT = pathlib.Path(__file__).resolve().parents[1] / "tests/data/report"
ORIGIN = {"date": "2026-01-02T03:04:05Z", "commit": "abc1234",
          "machine": {"cpu": "Test CPU", "isa": "avx2", "threads": 2},
          "model": {"name": "tiny", "sha256": "00ff"}}
QUESTIONS = {"set": "questions", "per_category": 1}


def spread(*runs):
    ordered = sorted(runs)
    return {"median": ordered[len(ordered) // 2], "min": ordered[0], "max": ordered[-1],
            "runs": list(runs)}


def tail(p50):
    return {"p50": p50, "p95": 2 * p50, "p99": 3 * p50}


def row(method, batch, category, speeds, ratios, extra):
    return {"method": method, "tree": "" if method == "none" else "auto", "batch": batch,
            "category": category, "tokens_per_second": spread(*speeds),
            "speedup_over_none": spread(*ratios), "prompt_tokens_per_second": None,
            "extra_tokens_per_step": extra, "drafted_per_step": 2 * extra,
            "ttft_ms": tail(10 * batch), "tpot_ms": tail(4.0),
            "step_ms": {"draft": tail(0.5), "verify": tail(3.0), "sample": tail(0.25),
                        "other": tail(0.125)},
            "same_text_as_none": True, "ids_hash": "0123456789abcdef"}


def decode():
    rows = []
    for batch, plain, fast, ratios in ((1, (100, 90, 110), (150, 140, 160), (1.5, 1.4, 1.6)),
                                       (8, (400, 390, 410), (404, 380, 430), (1.01, 0.95, 1.1))):
        for category in ("all", "chat", "code"):
            rows.append(row("none", batch, category, plain, (1, 1, 1), 0))
            rows.append(row("ngram", batch, category, fast, ratios, 0.5))
        for nodes, gain in ((2, 1.2), (8, 1.6 if batch == 1 else 0.8)):
            rows.append(row(f"ngram@{nodes}", batch, "all", [gain * x for x in plain],
                            (gain, gain - 0.05, gain + 0.05), 0.5))
        rows.append(row("wrong", batch, "all", [0.9 * x for x in plain], (0.9, 0.85, 0.95), 0))
    options = {"repeats": 3, "max_tokens": 64, "prompt_tokens": 0, "ignore_eos": False,
               "questions": 2, "temperature": 0.0, "seed": 0, "question_set": QUESTIONS}
    return {"results": rows, "options": options, **ORIGIN}


def kernels():
    cost = []
    for kind in ("Q4_1", "matmuls", "step"):
        # 32 MB and 100 MMAC a row.
        for rows, ms, read, mac in ((1, 2, 0.8, 0.1), (4, 2, 0.8, 0.4), (8, 4, 0.4, 0.6),
                                    (16, 8.1, 0.2, 0.6)):
            cost.append({"type": kind, "rows": rows, "ms": spread(ms, 0.95 * ms, 1.05 * ms),
                         "ratio_to_one_row": ms / 2, "gbytes_per_s": 32 / ms,
                         "gmac_per_s": 100 * rows / ms,
                         "share_of_read_peak": read, "share_of_mac_peak": mac})
    return {"peak": {"read_gbytes_per_s": 20.0, "int8_gmac_per_s": 500.0,
                     "float_gmac_per_s": 100.0}, "cost": cost, **ORIGIN}


def evaluation():
    trees = [{"nodes": nodes, "depth": depth, "extra_tokens_per_step": extra, "drafted_per_step": drafted,
              "acceptance_rate": extra / drafted, "per_depth": depths,
              "recall": [extra * share for share in depths],
              "by_category": {"chat": extra / 2, "code": 1.5 * extra}}
             for nodes, depth, extra, drafted, depths in ((8, None, 1.0, 4.0, [0.6, 0.4, 0.2]),
                                                          (1, None, 0.5, 1.0, [0.5]),
                                                          (8, 1, 0.6, 3.0, [0.6]),
                                                          (8, 2, 0.9, 4.0, [0.6, 0.3]))]
    # Cases by depth and by the rank of the node before: how many came at ranks 1, 2, …
    ranks = [{"depth": depth, "parent_rank": parent, "asked": asked, "at_rank": at}
             for depth, parent, asked, at in ((1, 1, 200, [100, 40, 20, 0, 0, 0, 0, 10]),
                                              (2, 1, 100, [40, 10, 0, 0, 0, 0, 0, 0]),
                                              (2, 2, 40, [10, 0, 0, 0, 0, 0, 0, 0]),
                                              (2, 5, 20, [5, 0, 0, 0, 0, 0, 0, 0]))]
    bins = [{"low": i / 10, "high": (i + 1) / 10, "count": (1000, 0, 30)[i % 3],
             "predicted": i / 10 + 0.05, "observed": i / 10 + 0.02} for i in range(10)]
    options = {"max_tokens": 64, "questions": 2, "temperature": 0.0, "seed": 0,
               "question_set": QUESTIONS}
    return {"trees": trees, "calibration": bins, "ranks": ranks,
            "costly": False, "options": options, "speculator": "ngram",
            **ORIGIN}


def peers():
    speed = {"title": "Tokens per second", "unit": "tokens per second", "less_is_better": False,
             "note": "Two programs, 3 runs.",
             "sides": [{"name": "llama.cpp", "values": {"decode 1": spread(50, 45, 55),
                                                        "prompt": spread(300, 290, 310)}},
                       {"name": "clover", "values": {"decode 1": spread(100, 99, 101),
                                                     "prompt": spread(300, 280, 320)}}],
             "ratio": {"name": "clover over llama.cpp",
                       "values": {"decode 1": spread(2, 1.8, 2.2), "prompt": spread(1, 0.9, 1.1)}}}
    waits = {"title": "Time to first token", "unit": "ms", "less_is_better": True, "note": "",
             "sides": [{"name": "off", "values": {"1 client": spread(20, 18, 22), "4": None}},
                       {"name": "auto", "values": {"1 client": spread(10, 9, 11), "4": spread(9, 8, 10)}}],
             "ratio": {"name": "auto over off", "values": {"1 client": spread(0.5, 0.4, 0.6), "4": None}}}
    memory = {"title": "Memory", "unit": "MiB", "less_is_better": True, "note": "", "ratio": None,
              "sides": [{"name": "clover", "values": {"resident": spread(100, 100, 100)}}]}
    return {"date": ORIGIN["date"], "machine": {"cpu": "Test CPU", "cores": 2, "system": "test"},
            "commit": "abc1234", "model": ORIGIN["model"], "settings": {"repeats": 3},
            "comparisons": [speed, waits, memory]}


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for name, content in (("decode", decode()), ("kernels", kernels()), ("eval", evaluation()),
                          ("peers", peers())):
        (OUT / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
