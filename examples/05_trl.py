"""A rubric as the reward of TRL's GRPOTrainer: a tiny policy, six steps of GSPO, a record of every group.

Run it: python examples/05_trl.py

It needs TRL: pip install torch==2.13.0 trl==1.16.0. The policy is a Qwen3 of two layers with random weights: put the
name of a model in place of `policy()` and `words()` to train a real one.
"""

from typing import Any

from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl import GRPOConfig, GRPOTrainer  # type: ignore[import-not-found, import-untyped, unused-ignore]

from rubrank import read_records
from rubrank.training.trl import RubricReward

QUERIES = ["Name a lake.", "Explain tides.", "Why does it rain?", "Say hello."]

# Asked of every query. A query's own rubric, in a column of the dataset, is added to it.
RUBRIC = ["EmptyAnswer", {"name": "WordCount", "params": {"low": 3}}]
OWN = [{"name": "NoComma", "verifier": "punctuation:no_comma"}]


def words() -> Any:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=["<pad>", "<end>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(QUERIES, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>", padding_side="left"
    )


def policy(size: int) -> Any:
    config = Qwen3Config(
        vocab_size=size,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=1,
    )
    return Qwen3ForCausalLM(config)


def main() -> None:
    dataset = Dataset.from_dict({"prompt": QUERIES, "rubric": [OWN, None, OWN, None]})
    reward = RubricReward(RUBRIC, rule="rlvr2+", records="records.jsonl")
    reward.check(dataset)  # every rubric, before anything is spent

    settings = GRPOConfig(
        output_dir="out",
        max_steps=6,
        per_device_train_batch_size=16,
        num_generations=8,
        max_completion_length=12,
        importance_sampling_level="sequence",
        loss_type="grpo",
        epsilon=3e-4,
        epsilon_high=4e-4,
        beta=0.0,  # GSPO
        scale_rewards="group",
        learning_rate=1e-3,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        seed=0,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        disable_tqdm=True,
    )
    tokenizer = words()
    trainer = GRPOTrainer(
        model=policy(len(tokenizer)),
        processing_class=tokenizer,
        args=settings,
        train_dataset=dataset,
        reward_funcs=reward,
        callbacks=[reward.callback],
    )
    trainer.train()

    for line in trainer.state.log_history[:6]:
        print(
            f"step {line['step']}: reward {line['reward']:.2f}, three words {line['rubrank/WordCount/mean']:.0%},"
            f" groups without signal {line['rubrank/groups/no_signal']:.0%}"
        )
    best = max(read_records("records.jsonl"), key=lambda record: max(record.reward) - min(record.reward))
    print(f"group {best.group}: rewards {[round(reward, 2) for reward in best.reward]}")


if __name__ == "__main__":
    main()
