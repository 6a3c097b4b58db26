# SPDX-License-Identifier: Apache-2.0
"""llama.cpp through its C interface, as little Python around it as possible.

Only the calls of llama_decode are timed (drawing the greedy token and filling batches are not), so
whatever Python costs is not charged to llama.cpp.
"""

import ctypes
import time

import llama_cpp
import numpy as np


@llama_cpp.llama_log_callback
def _silent(_level, _text, _data):
    pass


class LlamaPeer:
    """A model and one context with room for `sequences` sequences of `context` tokens each."""

    def __init__(self, path, threads, sequences=1, context=1024):
        llama_cpp.llama_log_set(_silent, None)
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(
            str(path).encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            raise SystemExit(f"llama.cpp cannot load {path}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = context * sequences
        params.n_batch = params.n_ubatch = 512
        params.n_seq_max = sequences
        # Room for the logits of every row of a batch, which compare_logits.py asks for.
        params.n_outputs_max_per_seq = 512
        params.n_threads = params.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        if not self.context:
            raise SystemExit("llama.cpp cannot make a context")
        self.memory = llama_cpp.llama_get_memory(self.context)
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.vocab_size = llama_cpp.llama_vocab_n_tokens(self.vocab)
        self.batch = llama_cpp.llama_batch_init(512, 0, 1)

    def close(self):
        llama_cpp.llama_batch_free(self.batch)
        llama_cpp.llama_free(self.context)
        llama_cpp.llama_model_free(self.model)

    def set_threads(self, threads):
        llama_cpp.llama_set_n_threads(self.context, threads, threads)

    def clear(self):
        llama_cpp.llama_memory_clear(self.memory, False)

    def tokenize(self, text, special=True):
        """Ids of `text`; control tokens in it are recognised when `special`."""
        data = text.encode()
        ids = (llama_cpp.llama_token * (len(data) + 8))()
        count = llama_cpp.llama_tokenize(
            self.vocab, data, len(data), ids, len(ids), False, special)
        return list(ids[:count])

    def decode(self, rows):
        """One pass over rows of (token, position, sequence, wants logits); returns its seconds."""
        batch = self.batch
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, wants) in enumerate(rows):
            batch.token[i] = token
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = wants
        begin = time.perf_counter()
        code = llama_cpp.llama_decode(self.context, batch)
        llama_cpp.llama_synchronize(self.context)
        seconds = time.perf_counter() - begin
        if code != 0:
            raise SystemExit(f"llama_decode failed with code {code}")
        return seconds

    def logits(self, row):
        """The logits of the pass's row `row` (valid until the next pass): [vocab] float32."""
        pointer = llama_cpp.llama_get_logits_ith(self.context, row)
        address = ctypes.cast(pointer, ctypes.c_void_p).value
        values = (ctypes.c_float * self.vocab_size).from_address(address)
        return np.frombuffer(values, dtype=np.float32)

    def prompt(self, ids, sequence=0):
        """Computes a prompt from position 0 on; returns the seconds. Logits of its last row."""
        seconds = 0.0
        for begin in range(0, len(ids), 512):
            chunk = ids[begin:begin + 512]
            seconds += self.decode([(token, begin + i, sequence, begin + i == len(ids) - 1)
                                    for i, token in enumerate(chunk)])
        return seconds

    def generate(self, prompts, tokens):
        """Greedy decoding of all prompts at once, `tokens` tokens each, ends of text ignored.

        Returns the seconds of the steps (prompts not counted) and the tokens that they gave.
        """
        self.clear()
        newest = []
        for sequence, ids in enumerate(prompts):
            self.prompt(ids, sequence)
            newest.append(int(np.argmax(self.logits(-1))))
        seconds = 0.0
        for step in range(tokens - 1):
            seconds += self.decode([(newest[s], len(prompts[s]) + step, s, 1)
                                    for s in range(len(prompts))])
            newest = [int(np.argmax(self.logits(s))) for s in range(len(prompts))]
        return seconds, (tokens - 1) * len(prompts)
