"""Verifiers of your own: a bool, a number with a reason, and one that sees the whole rollout.

Run it: python examples/06_own_verifier.py

On the command line, put such functions into a module and run `rubrank --import MODULE …`.
"""

import rubrank


@rubrank.verifier
def polite(text):
    return "please" in text


@rubrank.verifier("Calm")
def calm(text: rubrank.Text, *, most: int = 1) -> tuple[float, str]:
    """At most `most` words in capitals; half as good for each further one."""
    n = sum(word.isupper() and len(word) > 1 for word in text.words)
    return 0.5 ** max(0, n - most), f"{n} words in capitals, at most {most} wanted"


@rubrank.verifier("AnswersInKind")
def answers_in_kind(rollout: rubrank.Rollout) -> bool:
    """A question gets no question back."""
    asked = str(rollout.prompt[-1].content).endswith("?")
    return not (asked and rollout.answer.endswith("?"))


responses = ["Tea, please.", "GIVE ME TEA NOW, please!", "What tea?"]
table = rubrank.grade([{"prompt": "What would you like?", "responses": responses}], ["polite", "Calm", "AnswersInKind"])
for response, scores, reasons in zip(responses, table.groups[0].scores, table.groups[0].reasons, strict=True):
    print(f"{response:<26}", *(f"{score:.2f}" for score in scores), f"  {reasons[1]}")
print("rewards", *(f"{reward:.2f}" for reward in table.fuse().reward))

try:
    rubrank.verifier("WordCount")(polite)
except rubrank.InvalidInput as error:
    print(error)
