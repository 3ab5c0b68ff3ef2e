#!/usr/bin/env bash
# All that needs a GPU, tests first, then figures:
#
#   benchmarks/on_gpu.sh WORKLOAD LOGS [STEP ...]
#
# WORKLOAD is a program as `benchmarks/memory_overhead.py` wants it. Each step writes LOGS/STEP.log; LOGS/summary
# has a line for each with its exit status, its seconds and its last line. A step takes at most SECONDS_EACH (600).
set -uo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} # this pasta, wherever a program lies that imports it
workload=$1 logs=$2
shift 2
mkdir -p "$logs"
scratch=$(mktemp -d /dev/shm/pasta-figures-XXXXXX)
trap 'rm -rf "$scratch"' EXIT

gpu_tests() { python -m pytest -q -m gpu -n 5 -p no:benchmark --tb=short "$@"; }
memory_overhead() { python benchmarks/memory_overhead.py "$workload" --rounds 3 "$@"; }

tests_memory() {
  gpu_tests tests/collect/test_cuda_memory_gpu.py tests/collect/test_watched_launches_gpu.py \
    tests/collect/test_switched_graphs_gpu.py
}
tests_engines() { gpu_tests tests/pipeline; }
tests_collect() {
  gpu_tests tests/collect --deselect tests/collect/test_cuda_memory_gpu.py --deselect tests/collect/test_watched_launches_gpu.py \
    --deselect tests/collect/test_switched_graphs_gpu.py
}
system() { python -m pasta doctor && python -m pasta system show; }
touch_bound_by_gpu() {
  memory_overhead --variants "cuda.memory:touch,cuda.memory:touch --tensor-loads none" \
    --settings "GPU-bound; fp32,GPU-bound; bf16"
}
touch_by_kernel() { python benchmarks/memory_kernels.py; }
patch_costs() {
  python benchmarks/patch_costs.py build "$scratch/patches" && python benchmarks/patch_costs.py run "$scratch/patches"
}
access_stored() { memory_overhead --variants cuda.memory:access --settings inference,training; }
access_counted() {
  memory_overhead --variants "cuda.memory:access --records counted" --settings inference,training
}
timeline() { python benchmarks/cuda_timeline.py "$workload" --rounds 5; }
engines() {
  python benchmarks/engines.py "$scratch" --graphs reuse_gap,device_time,page_set,hot_blocks --rows 1e7,1e8 \
    --systems "pasta gpu;polars;pasta cpu"
}
managed() { python benchmarks/managed_migrations.py; }
three_analyses() { python benchmarks/three_analyses.py; }
collectors() { python benchmarks/overhead.py "$workload" --rounds 3 -- --device cuda --mode train --iters 50; }
paper_models() {
  for mode in "" --train; do
    for model in alexnet resnet18 resnet34 bert gpt2 whisper; do
      python -m pasta collect --with torch,cuda.memory:touch -o "$scratch/$model$mode" -- \
        python examples/paper_models.py "$model" --device cuda --image-by-image $mode
      runs+=(--run "$model$mode=$scratch/$model$mode")
    done
  done
  python -m pasta run working_set_table "${runs[@]}"
}

steps=(tests_memory tests_engines tests_collect system
  touch_bound_by_gpu touch_by_kernel patch_costs access_stored access_counted timeline engines managed three_analyses collectors
  paper_models)
for step in "${@:-${steps[@]}}"; do
  began=$SECONDS
  export -f "$step" gpu_tests memory_overhead
  workload=$workload scratch=$scratch timeout "${SECONDS_EACH:-600}" bash -c "$step" > "$logs/$step.log" 2>&1
  status=$?
  echo "$step: exit $status, $((SECONDS - began)) s: $(tail -n 1 "$logs/$step.log")" | tee -a "$logs/summary"
done
