"""An attribute of your own: exclamation marks that a judge falls for, measured and taken out.

Run it: python examples/08_own_attribute.py
"""

from typing import Any

import numpy as np

import rubrank


@rubrank.attribute
def exclamations(text: str) -> float:
    return text.count("!")


random = np.random.default_rng(0)
quality = random.normal(size=(64, 8))
marks = random.integers(0, 6, size=(64, 8))
texts = [["Good" + "!" * n for n in row] for row in marks]
judged = quality + 0.5 * marks  # the judge is swayed

values, columns = rubrank.measure(texts, ["exclamations"])
removed: dict[str, Any] = {
    "attributes": values,
    "attribute_names": columns,
    "pool": "batch",
}  # one fit for the whole batch
for title, options in (("as judged", {}), ("exclamations removed", removed)):
    reward = rubrank.fuse(judged[..., None], **options)
    agrees = np.corrcoef(reward.ravel(), quality.ravel())[0, 1]
    sways = np.corrcoef(reward.ravel(), marks.ravel())[0, 1]
    print(f"{title:<22} with quality {agrees:+.2f}, with exclamation marks {sways:+.2f}")
