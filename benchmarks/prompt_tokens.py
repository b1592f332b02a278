"""What a judge call costs in input tokens: 1, 8 and 30 criteria about one response, in English and Chinese.

    PYTHONPATH=src python benchmarks/prompt_tokens.py --tokenizer qwen.tiktoken
    PYTHONPATH=../before/src python benchmarks/prompt_tokens.py …          the same of another tree

The questions are yes-or-no questions of one's own, as point-based rubrics have them; `library` are criteria of the
library with prompts of their own. Query and response are a sentence each, so that what is counted is the prompt.
Without a tokenizer the count is the estimate of `rubrank judge show`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rubrank import Criterion, Rollout
from rubrank.judges.prompting import absolute_call, batched_call

SIZES = (1, 8, 30)
ENGLISH = [
    "Names the lake and the city that it belongs to.",
    "States the area of the lake, with a unit.",
    "Advises against swimming outside the marked area.",
    "Does not invent opening hours.",
    "Mentions a way to get there by public transport, such as the metro.",
    "Addresses the reader in a friendly tone.",
    "Gives at least two sights with a sentence about each.",
    "Says that prices may change.",
    "Asks for the month of the visit, or gives advice for more than one season.",
    "Recommends no restaurant by name.",
]
CHINESE = [
    "说出湖名和所在城市。",
    "写明湖的面积，并带单位。",
    "提醒不要在划定区域以外游泳。",
    "不编造开放时间。",
    "提到一种公共交通方式，例如地铁。",
    "语气友好。",
    "至少介绍两处景点，每处有一句说明。",
    "说明价格可能变动。",
    "询问游览月份，或给出不止一个季节的建议。",
    "不点名推荐餐馆。",
]
LIBRARY = ["GeneralQuality", "CoreIntentMatch", "CoreFactAccuracy", "MaterialFaithfulness", "RoleConsistency"]
LIBRARY += ["RoboticTemplate", "Verbosity", "Affectation"]
ROLLOUTS = {
    "en": Rollout.model_validate({"prompt": "Tell me about West Lake.", "response": "West Lake lies in Hangzhou."}),
    "zh": Rollout.model_validate({"prompt": "介绍一下西湖。", "response": "西湖在杭州。"}),
}


def questions(language: str, count: int) -> list[Criterion]:
    texts = ENGLISH if language == "en" else CHINESE
    aspect = "Part {}: {}" if language == "en" else "第{}部分：{}"
    numbered = [aspect.format(i // len(texts) + 1, texts[i % len(texts)]) for i in range(count)]
    return [Criterion.model_validate({"question": question}) for question in numbered]


def counter(path: Path | None) -> tuple[Callable[[str], int], str]:
    """How tokens are counted, and what that is called."""
    from rubrank.judges.prompting.tokens import load_token_counter

    return load_token_counter(path)


def tokens(count: Callable[[str], int], call: Any) -> int:
    return sum(count(message["content"]) for message in call.messages)


def main() -> None:
    parser = argparse.ArgumentParser(description="Input tokens of a judge call.")
    parser.add_argument("--tokenizer", type=Path, help="tokenizer.json, or a .tiktoken file of ranks")
    count, name = counter(parser.parse_args().tokenizer)
    print(f"tokens: {name}")
    for language, rollout in ROLLOUTS.items():
        for size in SIZES:
            criteria = questions(language, size)
            batched = tokens(count, batched_call(criteria, rollout))
            apart = sum(tokens(count, absolute_call(criterion, rollout)) for criterion in criteria)
            print(f"{language}  {size:2} questions  batched {batched:6,}  one call each {apart:7,}")
        named = [Criterion(name=name) for name in LIBRARY]
        print(f"{language}   8 library    batched {tokens(count, batched_call(named, rollout)):6,}")


if __name__ == "__main__":
    main()
