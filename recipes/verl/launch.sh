#!/usr/bin/env bash
# One node:      MODEL=Qwen/Qwen3-8B DATA=/shared/verl RUN=/shared/run-1 ./launch.sh
# Several nodes: on the head `ray start --head`, on the others `ray start --address=HEAD:6379`, then on the head
#                NODES=2 MODEL=… DATA=… RUN=… ./launch.sh        (all paths must be readable on every node)
# MANAGER=RubricBarrier fuses group by group, in the reward loop. If judges stay away the run stops with a checkpoint and
# exit code 2: start it again with the same command.
# Logits of one rollout of 10,240 tokens are 16 GB: a micro-batch of 4 needs 62. A checkpoint of an 8B model is 98 GB: two
# are kept, 20 would be 2 TB. More settings of verl go behind, such as actor_rollout_ref.rollout.tensor_model_parallel_size=2.
set -euo pipefail
: "${MODEL:?the policy}" "${DATA:?the folder that make.py wrote}" "${RUN:?where checkpoints and records go}"
NODES=${NODES:-1} GPUS=${GPUS:-8} GROUP=${GROUP:-8} PROMPTS=${PROMPTS:-128} STEPS=${STEPS:-1000}
RESPONSE=${RESPONSE:-8192} MODE=${MODE:-rubrank_sync} MANAGER=${MANAGER:-RubricScores} WORKERS=${WORKERS:-8}
exec python -m rubrank.training.verl \
  trainer.v1.trainer_mode="$MODE" \
  reward.reward_manager.source=importlib \
  reward.reward_manager.module.path=pkg://rubrank.training.verl.reward_loop \
  reward.reward_manager.name="$MANAGER" \
  reward.num_workers="$WORKERS" \
  '+rubrank.rubric=[EmptyAnswer,Truncated]' \
  '+rubrank.rule=rlvr2+' \
  +rubrank.records="$RUN/records.jsonl" \
  data.train_files="$DATA/train.parquet" \
  data.val_files="$DATA/val.parquet" \
  data.train_batch_size="$PROMPTS" \
  data.max_prompt_length=2048 \
  data.max_response_length="$RESPONSE" \
  algorithm.adv_estimator=grpo \
  algorithm.norm_adv_by_std_in_grpo=true \
  algorithm.use_kl_in_reward=false \
  actor_rollout_ref.model.path="$MODEL" \
  actor_rollout_ref.rollout.name=vllm \
  actor_rollout_ref.rollout.n="$GROUP" \
  actor_rollout_ref.rollout.gpu_memory_utilization=0.6 \
  actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1 \
  actor_rollout_ref.actor.policy_loss.loss_mode=gspo \
  actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean \
  actor_rollout_ref.actor.clip_ratio_low=3e-4 \
  actor_rollout_ref.actor.clip_ratio_high=4e-4 \
  actor_rollout_ref.actor.use_kl_loss=false \
  actor_rollout_ref.actor.optim.lr=1e-6 \
  actor_rollout_ref.actor.ppo_mini_batch_size=32 \
  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 \
  trainer.nnodes="$NODES" \
  trainer.n_gpus_per_node="$GPUS" \
  trainer.total_training_steps="$STEPS" \
  trainer.save_freq=50 \
  trainer.max_actor_ckpt_to_keep=2 \
  trainer.test_freq=25 \
  trainer.default_local_dir="$RUN" \
  'trainer.logger=[console]' \
  "$@"
