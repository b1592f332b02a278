#!/usr/bin/env bash
# MODE=fsdp2|zero3 VLLM=colocate|server launch.sh CONFIG [options of rubrank train]
# With VLLM=server the last two GPUs sample (trl vllm-serve) and six train; the config then needs vllm_mode: server,
# and prompts_per_batch × num_generations that six processes divide: 126 × 8, say.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
config=${1:?the config}
shift
mode=${MODE:-fsdp2}
rubrank train "$config" --dry-run
if [ "${VLLM:-colocate}" = server ]; then
  CUDA_VISIBLE_DEVICES=6,7 trl vllm-serve --model "${MODEL:?the model of the config}" --tensor-parallel-size 2 &
  server=$!
  trap 'kill "$server"' EXIT
  CUDA_VISIBLE_DEVICES=0,1,2,3,4,5 accelerate launch --config_file "$here/$mode.yaml" --num_processes 6 \
    -m rubrank train "$config" "$@"
else
  accelerate launch --config_file "$here/$mode.yaml" -m rubrank train "$config" "$@"
fi
