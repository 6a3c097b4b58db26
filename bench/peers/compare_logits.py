# SPDX-License-Identifier: Apache-2.0
"""How far Clover's logits are from llama.cpp's on the same tokens.

Reads a file that Clover wrote: 8 bytes "CLVLOGIT", then little-endian int32 rows and int32 vocab,
then rows int32 token ids (one sequence, positions from 0 on) and rows * vocab float32 logits, row
by row. Runs llama.cpp over the same ids and prints the share of rows whose largest logit belongs to
the same token, and the mean Kullback-Leibler divergence KL(llama.cpp || Clover) in nats.

Without a file, Clover is asked to write one for every text (build/clover-logits, logits.cc here).
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np

from llama_peer import LlamaPeer

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAGIC = b"CLVLOGIT"


def read_logits(path):
    """Token ids [rows] and logits [rows, vocab] of a file in the form above."""
    with open(path, "rb") as file:
        if file.read(8) != MAGIC:
            raise SystemExit(f"{path} does not start with {MAGIC.decode()}")
        header = np.fromfile(file, "<i4", 2)
        if len(header) != 2 or header[0] < 1 or header[1] < 2:
            raise SystemExit(f"{path}: rows or vocab in its header are impossible")
        rows, vocab = (int(value) for value in header)
        wanted = 16 + 4 * rows + 4 * rows * vocab
        if pathlib.Path(path).stat().st_size != wanted:
            raise SystemExit(f"{path}: its header asks for {wanted} bytes")
        return np.fromfile(file, "<i4", rows), np.memmap(
            path, "<f4", "r", offset=16 + 4 * rows, shape=(rows, vocab))


def log_softmax(logits):
    values = logits.astype(np.float64)
    values -= values.max()
    return values - np.log(np.exp(values).sum())


def compare(peer, ids, logits):
    """Per row of one sequence: same largest token, KL in nats, |difference| of the logits."""
    if logits.shape[1] != peer.vocab_size:
        raise SystemExit(f"the file has {logits.shape[1]} logits a row, llama.cpp "
                         f"{peer.vocab_size}")
    same, divergence, difference = [], [], []
    peer.clear()
    for begin in range(0, len(ids), 512):
        chunk = ids[begin:begin + 512]
        peer.decode([(int(token), begin + i, 0, 1) for i, token in enumerate(chunk)])
        for i in range(len(chunk)):
            theirs, ours = peer.logits(i), logits[begin + i]
            p, q = log_softmax(theirs), log_softmax(ours)
            same.append(int(np.argmax(theirs)) == int(np.argmax(ours)))
            divergence.append(float((np.exp(p) * (p - q)).sum()))
            difference.append(float(np.abs(theirs - ours).mean()))
    return same, divergence, difference


def ask_clover(arguments, folder):
    """Files of logits, one for each text."""
    if not arguments.program.is_file():
        raise SystemExit(f"{arguments.program} is not built; compare_llama.sh logits builds it")
    files = []
    for number, text in enumerate(arguments.text):
        files.append(folder / f"{number}.logits")
        subprocess.run([str(arguments.program), "-m", str(arguments.model), "-f", str(text), "-n",
                        str(arguments.tokens), "--out", str(files[-1])],
                       check=True, stdin=subprocess.DEVNULL)
    return files


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path,
                        default=ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/clover-logits")
    parser.add_argument("--text", type=pathlib.Path, nargs="+",
                        default=[ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"])
    parser.add_argument("--tokens", type=int, default=512, help="tokens of each text")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = arguments.files or ask_clover(arguments, pathlib.Path(folder))
        loaded = [read_logits(path) for path in files]
        peer = LlamaPeer(arguments.model, arguments.threads, 1, max(len(i) for i, _ in loaded))
        same, divergence, difference = [], [], []
        for ids, logits in loaded:
            for total, more in zip((same, divergence, difference), compare(peer, ids, logits)):
                total += more
        result = {"rows": len(same), "same_top1": float(np.mean(same)),
                  "mean_kl": float(np.mean(divergence)), "max_kl": float(np.max(divergence)),
                  "mean_abs_difference": float(np.mean(difference))}
    print(f"{result['rows']} positions: same most likely token {100 * result['same_top1']:.2f} %, "
          f"mean KL {result['mean_kl']:.5f} nats (largest {result['max_kl']:.4f}), mean absolute "
          f"difference of the logits {result['mean_abs_difference']:.4f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
