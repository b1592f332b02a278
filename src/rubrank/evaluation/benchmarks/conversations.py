"""Conversations with instructions to keep, graded by a judge: SysBench, AdvancedIF, MultiChallenge.

    SysBench         does a model keep to a system prompt over five turns?
    AdvancedIF       are all criteria of an expert's rubric met?
    MultiChallenge   does the last answer do what an earlier turn asked for?

If a judge's reply does not have one verdict for each question, the score is missing. Published verdicts in a row of
outputs are used as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rubrank.errors import InvalidInput
from rubrank.evaluation.benchmark import (
    Benchmark,
    DataFile,
    ItemScore,
    Messages,
    Metrics,
    MissingScore,
    Row,
    Setting,
    divide_sums,
    first_value,
    mean,
    mean_by_label,
    mean_value,
    to_text,
)
from rubrank.evaluation.judge import fill_prompt, find_last_word, parse_json_object, read_mapping


def _format_messages(messages: Messages) -> str:
    return "\n".join(f"{message['role']}: {message['content']}" for message in messages)


# ----------------------------------------------------------------------------------------------------------- SysBench

_YES = ("yes", "true", "1", "是")
_NO = ("no", "false", "0", "否")
_TURNS = 5


class SysBench(Benchmark):
    """500 dialogues × 5 turns, with the constraints of a system prompt.

    one turn, three constraints, judged yes, yes, no      CSR counts 2 of 3, ISR 0 of 1
    a dialogue whose turns are met, met, not, met, met    SSR 2/5: turns up to the first failure

    CSR: share of all constraints that are followed; ISR: share of turns with every constraint followed; SSR: mean share
    of a dialogue's turns before the first that failed. The judge is called once per turn.

    A judge may also say that a constraint does not apply. The authors' script ("upstream") counts it as not followed in
    CSR, but does not count its turn as failed; with compat "fixed", the turn has no score.
    """

    name = "sysbench"
    title = "SysBench"
    capability = "instruction following"
    headline = "ISR"
    judge = "GPT-4o, one call per turn"
    licence = "none stated"
    data = DataFile(
        "sysbench.jsonl",
        "git clone PKU-Baichuan-MLSystemLab/SysBench and convert its turns to JSON lines",
    )
    settings: ClassVar = {
        "history": Setting("own", ("own", "reference"), "whose earlier answers the model sees"),
        "compat": Setting(
            "upstream",
            ("upstream", "fixed"),
            "a turn with a verdict other than yes or no: upstream, it is not failed; fixed, it has no score",
        ),
    }

    columns: ClassVar = {"dialogue": "system_id", "turn": "turn", "alignment": "alignment"}

    def item_id(self, row: Row) -> str:
        """Return the dialogue and the turn."""
        if "system_id" in row:
            return f"{row['system_id']}/{row['turn']}"
        return super().item_id(row)

    def published_score(self, item: Row, row: Row) -> ItemScore | None:
        """Return the score from published verdicts; None unless all constraints of the turn have one."""
        criteria = row.get("criteria") or ()
        if not criteria or any(criterion.get("verdict") is None for criterion in criteria):
            return None
        verdicts = {str(criterion["id"]): criterion["verdict"] for criterion in criteria}
        return self._make_score(row, verdicts, str(row.get("judge_reason", "")))

    def prompt(self, item: Row) -> Messages:
        """Return the system prompt, the turns before, and this turn."""
        before = item.get("history") or ()
        return [
            {"role": "system", "content": str(item["system_prompt"])},
            *before,
            {"role": "user", "content": str(item["prompt"])},
        ]

    def questions(self, item: Row, output: str) -> list[Messages]:
        """Return one question about all constraints of the turn."""
        constraints = "\n".join(
            f"{criterion['id']}. {criterion['text']} | {criterion.get('type', 'constraint')}"
            for criterion in item["criteria"]
        )
        prompt = fill_prompt(
            "sysbench",
            system=item["system_prompt"],
            history=_format_messages(item.get("history") or ()) or "(first turn)",
            turn=item["prompt"],
            response=output,
            constraints=constraints,
        )
        return [prompt]

    def score(self, item: Row, output: str, replies: Sequence[str]) -> ItemScore:
        """Return the score from a yes or no for each constraint."""
        reply = parse_json_object(replies[0])
        verdicts = read_mapping(reply, "result")
        return self._make_score(item, verdicts, str(reply.get("reason", "")))

    def _make_score(self, item: Row, verdicts: Mapping[str, Any], reason: str) -> ItemScore:
        """Score a turn; missing unless there is one readable verdict for each of its constraints."""
        constraint_ids = [str(criterion["id"]) for criterion in item["criteria"]]
        words = [str(verdicts.get(id)).strip().lower() for id in constraint_ids]
        are_readable = set(words) <= {*_YES, *_NO}
        if self.options["compat"] == "upstream":
            are_readable = True  # the authors' script takes any word
        if not are_readable or sorted(verdicts) != sorted(constraint_ids):
            got = json.dumps(verdicts, ensure_ascii=False)[:200]
            raise MissingScore(
                f"the judge answered {got}, constraints are {', '.join(constraint_ids)}"
            )
        values = {
            "followed": float(sum(word in _YES for word in words)),
            "constraints": float(len(words)),
            "all": float(not any(word in _NO for word in words)),
        }
        return self.make_score(item, values, reason)

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """Return ISR, CSR, SSR, and ISR by alignment."""
        turns_of_dialogue: dict[str, dict[int, float]] = {}
        for score in scores:
            dialogue = f"{score.labels.get('dialogue')}/{score.repeat}"
            turn = int(score.labels["turn"])
            turns_of_dialogue.setdefault(dialogue, {})[turn] = score.values["all"]
        # For each dialogue whose turns were all judged: the share of turns before the first failure.
        stable_shares = []
        for turns in turns_of_dialogue.values():
            if sorted(turns) == list(range(1, _TURNS + 1)):
                followed = [turns[turn] for turn in sorted(turns)]
                stable_turns = followed.index(0.0) if 0.0 in followed else _TURNS
                stable_shares.append(stable_turns / _TURNS)
        return {
            "ISR": mean_value(scores, "all"),
            "CSR": divide_sums(scores, "followed", "constraints"),
            "SSR": mean(stable_shares),
            **mean_by_label(scores, "alignment", "all", "ISR/"),
        }


# --------------------------------------------------------------------------------------------------------- AdvancedIF


class AdvancedIF(Benchmark):
    """Complex instructions, context carried over turns, and steerability by a system prompt.

    four criteria, verdicts yes, yes, yes, no       all-satisfied 0, three of four criteria

    The judge answers all criteria of an item in one call. The data is CC BY-NC: by path only.
    """

    name = "advancedif"
    title = "AdvancedIF"
    capability = "instruction following"
    headline = "all satisfied"
    judge = "o3-mini, all criteria in one call"
    licence = "CC BY-NC 4.0"
    data = DataFile.on_hub("advancedif.jsonl", "facebook/AdvancedIF")
    ids = ("example_id", "id", "conversation_history", "item_id", "key")
    columns: ClassVar = {"category": "benchmark_name"}
    settings: ClassVar = {
        "judges": Setting(
            "any", help="whose verdicts count if a file has those of several; any: the first listed"
        )
    }

    def output(self, row: Row) -> str:
        """Return the last message of a response that is a list of messages; any other response as it is."""
        text = super().output(row)
        messages = _decode_json(text)
        if not isinstance(messages, list) or not messages:
            return text
        last = messages[-1]
        # A model may also answer with a list: [1, 2, 3], or [{"name": "Ada"}].
        is_message = (
            isinstance(last, dict) and "role" in last and isinstance(last.get("content"), str)
        )
        return str(last["content"]) if is_message else text

    def prompt(self, item: Row) -> Messages:
        """Return the conversation so far."""
        messages: Messages = _decode_json(
            item.get("conversation_history") or item.get("conversation")
        )
        return messages

    def published_score(self, item: Row, row: Row) -> ItemScore | None:
        """Return the score from verdicts in the row; None if it has none.

        A row has a list of replies for each judge, of which the first counts. A reply has a verdict for each criterion:

            {"rubrics": ["Is it short?", "Is it kind?"], "verdicts": {"glm-5": [[true, false]]}, …}
        """
        replies_of_judges = row.get("verdicts")
        if not replies_of_judges:
            return None
        judge = self.options["judges"]
        if judge == "any":
            replies = next(iter(replies_of_judges.values()))
        else:
            replies = replies_of_judges.get(judge)
        if not replies or replies[0] is None:
            raise MissingScore(f"no verdicts of judge {judge!r}")
        return self._make_score(row, list(replies[0]))

    def questions(self, item: Row, output: str) -> list[Messages]:
        """Return one question about all criteria, with the system prompt if the item has one, else with the history."""
        messages = self.prompt(item)
        system_prompts = [message["content"] for message in messages if message["role"] == "system"]
        if system_prompts:
            kind = "system prompt"
            about = system_prompts[0]
        else:
            kind = "earlier turns"
            about = _format_messages(messages[:-1])
        criteria = "\n".join(
            f"question_{k}: {text}" for k, text in enumerate(_read_rubric(item), 1)
        )
        prompt = fill_prompt(
            "advancedif",
            kind=kind,
            about=about or "(none)",
            turn=messages[-1]["content"],
            response=output,
            criteria=criteria,
        )
        return [prompt]

    def score(self, item: Row, output: str, replies: Sequence[str]) -> ItemScore:
        """Return the score from the first word of the text about each criterion."""
        checks = read_mapping(parse_json_object(replies[0]), "rubrics_check")
        keys = [f"question_{k}" for k in range(1, len(checks) + 1)]
        return self._make_score(item, [_parse_yes_no(str(checks.get(key))) for key in keys])

    def _make_score(self, item: Row, verdicts: Sequence[bool | None]) -> ItemScore:
        """Score an item; missing unless there is one readable verdict for each criterion."""
        rubric = _read_rubric(item)
        if len(verdicts) != len(rubric):
            raise MissingScore(f"{len(verdicts)} verdicts for {len(rubric)} criteria")
        if None in verdicts:
            raise MissingScore("a verdict begins with neither YES nor NO")
        met = sum(1 for verdict in verdicts if verdict)
        count = len(verdicts)
        values = {"all": float(met == count), "met": float(met), "criteria": float(count)}
        return self.make_score(item, values)

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """Return the share of items with all criteria met (also by category), and the share of criteria met."""
        return {
            "all satisfied": mean_value(scores, "all"),
            "criteria met": divide_sums(scores, "met", "criteria"),
            **mean_by_label(scores, "category", "all", "all satisfied/"),
        }


def _read_rubric(item: Row) -> list[str]:
    """Return the criteria of an item, in the official schema or plain."""
    rubric = (
        item["rubrics"] if "rubrics" in item else _decode_json(item["prompt_metadata"])["rubrics"]
    )
    return [str(text) for text in _decode_json(rubric)]


def _decode_json(value: Any) -> Any:
    """Decode a text that is JSON; return any other value as it is, also a text that only looks like JSON."""
    if not isinstance(value, str) or not value.startswith(("[", "{")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


# A whole word: "Not sure" and "None" are no verdicts.
_LEADING_VERDICT = re.compile(r"[ *\"']*(?P<verdict>YES|NO)(?![A-Z])", re.IGNORECASE)


def _parse_yes_no(text: str) -> bool | None:
    """Return the verdict that a text begins with; None if it begins with neither YES nor NO.

    >>> _parse_yes_no("**Yes**: it names both"), _parse_yes_no("NO, the title is missing"), _parse_yes_no("Not sure")
    (True, False, None)
    """
    match = _LEADING_VERDICT.match(text)
    return None if match is None else match["verdict"].upper() == "YES"


# ----------------------------------------------------------------------------------------------------- MultiChallenge


class MultiChallenge(Benchmark):
    """273 conversations on four axes.

    target question "Are the places within a 5-minute walk?", pass criterion YES; the judge says NO: failed

    The judge sees only the final answer and the target question. An item passes if any of its attempts does. The
    overall score is the mean of the four axes' scores, not of the questions. If the judge fails, the score is
    missing; the authors' script counts it as a fifth axis with score 0.
    """

    name = "multichallenge"
    title = "MultiChallenge"
    capability = "instruction following"
    headline = "overall"
    points_factor = 1.0
    judge = "GPT-4o"
    licence = "none stated"
    data = DataFile(
        "benchmark_questions.jsonl",
        "git clone ekwinox117/multi-challenge; data/benchmark_questions.jsonl",
    )
    settings: ClassVar = {"attempts": Setting(1, help="answers to a question; one must pass")}
    ids = ("QUESTION_ID", *Benchmark.ids)

    def is_summary(self, row: Row) -> bool:
        """Return whether it is the row with totals that published files have."""
        return "summary" in row or "published_scores" in row

    def output(self, row: Row) -> str:
        """Return the first attempt if a row has several."""
        return to_text(row["responses"][0]) if row.get("responses") else super().output(row)

    def published_score(self, item: Row, row: Row) -> ItemScore | None:
        """Return the score from published verdicts: one row per attempt, or a list of attempts."""
        attempts = row.get("evaluations")
        if not attempts:
            if "verdict" not in row and "judge_verdict" not in row:
                return None
            attempts = [row]
        verdicts = [
            str(attempt.get("verdict") or attempt.get("judge_verdict", "")).strip().upper()
            for attempt in attempts
        ]
        if "YES" not in verdicts and "NO" not in verdicts:
            raise MissingScore(f"no verdict: {verdicts[0][:80]!r}")
        return self._make_score({**item, **row}, _read_pass_criterion(item) in verdicts, "")

    def prompt(self, item: Row) -> Messages:
        """Return the conversation so far."""
        messages: Messages = item["CONVERSATION"]
        return messages

    def questions(self, item: Row, output: str) -> list[Messages]:
        """Return the target question about the final answer."""
        return [fill_prompt("multichallenge", response=output, question=item["TARGET_QUESTION"])]

    def score(self, item: Row, output: str, replies: Sequence[str]) -> ItemScore:
        """Score the item: it passes if the verdict is its pass criterion, which may be NO."""
        reply = parse_json_object(replies[0])
        verdict = str(reply.get("verdict", "")).strip().upper()
        if verdict not in ("YES", "NO"):
            raise MissingScore("the judge's reply contains no verdict")
        passed = verdict == _read_pass_criterion(item)
        return self._make_score(item, passed, str(reply.get("reasoning", "")))

    def _make_score(self, row: Row, passed: bool, reason: str) -> ItemScore:
        """Make the score of an item with its axis as a label."""
        axis = str(first_value(row, ("AXIS", "axis")))
        return ItemScore(
            self.item_id(row), {"passed": float(passed)}, reason, labels={"axis": axis}
        )

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """Return the mean of the axes, in percent, and each axis."""
        passed: dict[str, dict[str, float]] = {}
        for score in scores:
            items = passed.setdefault(score.labels["axis"], {})
            items[score.id] = max(items.get(score.id, 0.0), score.values["passed"])
        axes = {axis: 100.0 * mean(passed[axis].values()) for axis in sorted(passed)}
        return {"overall": mean(axes.values()), **axes}


def _read_pass_criterion(item: Row) -> str:
    """Return the verdict with which an item passes: YES or NO."""
    text = str(first_value(item, ("pass_criteria", "PASS_CRITERIA")))
    criterion = find_last_word(text.upper(), ("YES", "NO"))
    if criterion is None:
        raise InvalidInput(
            owner="row", parameter="pass_criteria", allowed="YES or NO", got=repr(text)[:80]
        )
    return criterion
