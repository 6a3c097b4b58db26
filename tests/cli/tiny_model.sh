# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by scripts that have set source_dir, the source folder.
: "${source_dir:?}"

# tiny_model FOLDER: a model of 96 tokens (printable characters and the space), without a template.
tiny_model() {
  mkdir -p "$1"
  cp "$source_dir"/tests/data/tiny/llama2/{config.json,model.safetensors} "$1"/
  {
    printf '{"version":"1.0","added_tokens":['
    printf '{"id":0,"content":"<s>","special":true},{"id":1,"content":"</s>","special":true}],'
    printf '"normalizer":null,"post_processor":null,"decoder":{"type":"ByteLevel"},'
    printf '"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},'
    printf '"model":{"type":"BPE","merges":[],"vocab":{"<s>":0,"</s>":1,"\\u0120":2'
    local code
    for code in {33..125}; do printf ',"\\u%04x":%d' "$code" $((code - 30)); done
    printf '}}}\n'
  } >"$1/tokenizer.json"
  printf '{"bos_token":"<s>","eos_token":"</s>"%s}\n' "${2:-}" >"$1/tokenizer_config.json"
}
