# SPDX-License-Identifier: Apache-2.0
"""What other weight types than the default model's reach, against llama.cpp on the same files.

Makes a file of each type from the default model with llama.cpp's own quantiser (so the finer types
hold no finer weights; speed and agreement are what is looked at), then runs `clover bench kernels`,
compare_llama.py and compare_logits.py on it. Results that are already in the folder are kept, so an
interrupted run goes on. Writes the table in Markdown.
"""

import argparse
import ctypes
import json
import pathlib
import subprocess
import sys

from record import cell

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# llama_ftype numbers of llama.h
TYPES = {"BF16": 32, "Q8_0": 7, "Q4_0": 2, "Q4_K_M": 15}
ROWS = (4, 8, 16)


def make_file(source, path, ftype):
    """Quantises `source` into `path`, by way of a name that a broken run leaves behind."""
    import llama_cpp
    part = path.with_suffix(".part")
    settings = llama_cpp.llama_model_quantize_default_params()
    settings.ftype, settings.allow_requantize, settings.nthread = ftype, True, 2
    if llama_cpp.llama_model_quantize(str(source).encode(), str(part).encode(),
                                      ctypes.byref(settings)):
        raise SystemExit(f"llama.cpp could not make {path}")
    part.rename(path)


def measure(arguments, name, model):
    """The three results of one file: kernels, speed, logits."""
    out = arguments.folder / f"out-{name}"
    out.mkdir(exist_ok=True)
    kernels, logits, speed = out / "kernels.json", out / "logits.json", out / "llama_cpp.json"
    if not kernels.exists():
        subprocess.run([str(arguments.clover), "bench", "kernels", "-m", str(model), "--quiet",
                        "--json", str(kernels)], check=True, stdout=subprocess.DEVNULL)
    if not speed.exists():
        subprocess.run([sys.executable, str(HERE / "compare_llama.py"), "--model", str(model),
                        "--clover", str(arguments.clover), "--repeats", str(arguments.repeats),
                        "--tokens", str(arguments.tokens), "--out", str(out)], check=True)
    if not logits.exists():
        subprocess.run([sys.executable, str(HERE / "compare_logits.py"), "--model", str(model),
                        "--json", str(logits)], check=True)
    return [json.loads(path.read_text()) for path in (kernels, speed, logits)]


def write_table(path, results):
    first = next(iter(results.values()))[1]
    machine = first["machine"]
    lines = ["# Other weight types", "",
             f"The default model in other types (made from it by llama.cpp's quantiser) on "
             f"{machine['cpu']}, {machine['cores']} cores; commit {first['commit']}, "
             f"{first['date']}. Median of {first['settings']['repeats']} interleaved runs and "
             "[min–max].", "",
             "## Clover over llama.cpp, tokens per second on the same file", "",
             "| file | decode, one sequence | decode, eight sequences | prompt of 512 |",
             "|---|---|---|---|"]
    for name, (_, speed, _) in results.items():
        ratios = [f"{cell(speed['ratio'][key], 2)}x, {speed['tokens_per_second']['clover'][key]['median']:.0f} tok/s"
                  for key in ("decode 1", "decode 8", "prompt")]
        lines.append(f"| {name} | " + " | ".join(ratios) + " |")
    lines += ["", "## A step of Clover", "",
              "| file | one row, ms | of the memory's read speed | " +
              " | ".join(f"{rows} rows over one" for rows in ROWS) + " |",
              "|---|---|---|" + "---|" * len(ROWS)]
    for name, (kernels, _, _) in results.items():
        step = {row["rows"]: row for row in kernels["cost"] if row["type"] == "step"}
        lines.append(f"| {name} | {cell(step[1]['ms'], 2)} | {100 * step[1]['share_of_read_peak']:.0f} % | " +
                     " | ".join(f"{step[rows]['ratio_to_one_row']:.2f}" for rows in ROWS) + " |")
    lines += ["", "## Agreement with llama.cpp's logits", "",
              "| file | positions | same most likely token | mean KL, nats | largest KL |",
              "|---|---|---|---|---|"]
    for name, (_, _, logits) in results.items():
        lines.append(f"| {name} | {logits['rows']} | {100 * logits['same_top1']:.2f} % | "
                     f"{logits['mean_kl']:.5f} | {logits['max_kl']:.4f} |")
    lines += ["", "Both programs round activations to 8 bits, each in blocks of its own, so some near ties fall the other "
              "way where weights are quantised; on BF16 weights both compute in float.", "",
              "Made by `bench/peers/compare_llama.sh formats`.", ""]
    path.write_text("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path,
                        default=ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--clover", type=pathlib.Path, default=ROOT / "build/clover")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / ".cache/formats")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/results/formats.md")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    results = {"Q4_1 (as it ships)": measure(arguments, "Q4_1", arguments.model)}
    for name, ftype in TYPES.items():
        model = arguments.folder / f"{arguments.model.name.split('.')[0]}.{name}.gguf"
        if not model.exists():
            make_file(arguments.model, model, ftype)
        results[name] = measure(arguments, name, model)
    write_table(arguments.out, results)


if __name__ == "__main__":
    main()
