# SPDX-License-Identifier: Apache-2.0
"""OpenVINO GenAI as a program that answers: one JSON line in, one out.

Usage: openvino_worker.py MODEL THREADS plain|lookup
In: {"prompt": token ids, "tokens": most new tokens}. Out: {"ids", "ttft", "seconds"}, times in seconds
from the question on. The first line out is {"ready": true}. Greedy; an answer ends at the model's
end-of-text tokens or at "tokens".
"""

import json
import sys
import time

import numpy as np
import openvino as ov
import openvino_genai

MODEL, THREADS, MODE = sys.argv[1:4]
LOOKUP = {"num_assistant_tokens": 5, "max_ngram_size": 3}


def main():
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.enable_prefix_caching = False  # every run reads its prompts
    settings = {"INFERENCE_NUM_THREADS": int(THREADS), "scheduler_config": scheduler}
    if MODE == "lookup":
        settings["prompt_lookup"] = True
    pipeline = openvino_genai.LLMPipeline(MODEL, "CPU", **settings)
    config = openvino_genai.GenerationConfig()
    config.do_sample = False
    config.set_eos_token_id(pipeline.get_tokenizer().get_eos_token_id())
    if MODE == "lookup":
        for name, value in LOOKUP.items():
            setattr(config, name, value)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        config.max_new_tokens = asked["tokens"]
        ids = np.array([asked["prompt"]], dtype=np.int64)
        prompt = openvino_genai.TokenizedInputs(ov.Tensor(ids), ov.Tensor(np.ones_like(ids)))
        begin = time.perf_counter()
        result = pipeline.generate(prompt, config)
        seconds = time.perf_counter() - begin
        ttft = result.perf_metrics.get_ttft().mean / 1000
        print(json.dumps({"ids": list(result.tokens[0]), "ttft": ttft, "seconds": seconds}),
              flush=True)


main()
