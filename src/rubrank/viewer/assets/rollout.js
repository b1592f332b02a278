// One rollout: why it got its reward, what it did and said, and beside it every verdict with its reason.

import { chip, h } from "./dom.js";
import { count, isNumber, number, signed } from "./numbers.js";
import { conversation, lengthOf, marked, reasoningView, textBlock, turnsTitle } from "./texts.js";

export const LAYER_NAMES = {
  quality: "ranks rollouts",
  global_quality: "hard gate",
  low_quality: "soft gate",
  watch: "watched",
};
const WHOLE_LIST = "; of the whole list: "; // before the reason of a listwise judge
const SHORT_CONVERSATION = 8; // turns that are shown at once

/** [wins, ties, losses] of rollout i on criterion k. */
export function standing(group, i, k) {
  const letters = [...group.outcomes[k][i]];
  return ["W", "T", "L"].map((letter) => letters.filter((other) => other === letter).length);
}

/** Whether criterion k says anything about rollout i. */
export function isCompared(group, i, k) {
  return group.scores[i][k] !== null || /[WTL]/.test(group.outcomes[k][i]);
}

/** Such as "5–2", or with ties "5–2, 1 tie". */
export function winsAndLosses(group, i, k, withTies) {
  const [won, tied, lost] = standing(group, i, k);
  const ties = withTies && tied ? `, ${tied} ${tied > 1 ? "ties" : "tie"}` : "";
  return `${won}–${lost}${ties}`;
}

/** Text and verdicts side by side. query: words to mark; putLabel(criterion, score): null if labels cannot be given. */
export function rolloutView(group, i, query, putLabel) {
  return h("div", { class: "text-and-verdicts" },
    h("div", { class: "words" }, responseView(group, i, query), explanationView(group.explanations[i])),
    verdictList(group, i, query, putLabel));
}

/** The words of `rubrank explain`, with names and contributions set off. */
function explanationView(explanation) {
  const [headline, ...lines] = explanation.split("\n");
  const hasContributions = lines.some((line) => line.includes(" → "));
  const key = h("small", { class: "key" },
    h("span", { class: "added" }, "+"),
    " what a criterion adds to the sum that ranks the rollouts: its weight × its utility");
  return h("details", { class: "why", open: true },
    h("summary", { class: "headline" }, headline),
    lines.map((line) => h("p", {}, setOff(line.trim()))),
    hasContributions && key);
}

/** "Facts: beats 3 … → +0.4": the name in bold, the contribution in colour. */
function setOff(line) {
  const colon = line.indexOf(": ");
  const arrow = line.lastIndexOf(" → ");
  const name = h("b", {}, line.slice(0, Math.max(0, colon)));
  if (arrow <= colon) return [name, line.slice(Math.max(0, colon))];
  const contribution = line.slice(arrow + 3).replace("-", "−");
  const isNegative = contribution.startsWith("−");
  return [name, line.slice(colon, arrow), h("span", { class: isNegative ? "added minus" : "added" }, contribution)];
}

function responseView(group, i, query) {
  const turns = group.turns?.[i] || [];
  const response = group.responses?.[i];
  const before = h("details", { class: "before", open: turns.length <= SHORT_CONVERSATION },
    h("summary", {}, `Before the answer: ${turnsTitle(turns)}`),
    conversation(turns, query));
  if (response === undefined) {
    return [turns.length > 0 && before, h("p", { class: "muted" }, "The text of this rollout was not recorded.")];
  }
  const answer = h("section", { class: "text", "aria-label": "Response" },
    turns.length > 0 && h("b", { class: "role" }, "answer"),
    reasoningView(group.reasoning?.[i], query),
    textBlock(response, "said answer", query),
    h("p", { class: "muted measure" }, `${count(lengthOf(response))} characters`));
  return [turns.length > 0 && before, answer];
}

function verdictList(group, i, query, putLabel) {
  const cards = group.criteria.map((criterion, k) => verdictCard(group, i, k, query, putLabel));
  return h("section", { class: "verdict-list", "aria-label": "Scores and reasons" },
    h("h3", {}, "Scores and reasons"),
    h("ul", {}, cards));
}

function verdictCard(group, i, k, query, putLabel) {
  const criterion = group.criteria[k];
  const isRanked = k < group.ranked;
  const decidedBy = isRanked ? criterion.decided_by : LAYER_NAMES[criterion.layer];
  const utility = isRanked && group.utilities ? group.utilities[i][k] : null;
  const probabilities = group.probabilities?.[criterion.name]?.[i];
  const reason = group.reasons?.[i][k] || "";
  // Only a single verdict of a judge can be right or wrong; programs are tested, comparisons are not scores.
  const canBeLabelled = putLabel && criterion.decided_by === "judge" && group.scores[i][k] !== null && !criterion.compared;
  return h("li", { class: `verdict ${verdictColour(group, i, k)}` },
    h("div", { class: "verdict-head" },
      h("strong", {}, criterion.name),
      h("small", {}, decidedBy),
      h("span", { class: "verdict-score" }, scoreText(group, i, k))),
    isNumber(utility) && h("small", { class: "verdict-parts" }, contributionText(group, i, k, utility)),
    probabilities && h("small", { class: "verdict-parts" }, `probabilities: ${probabilities}`),
    reason && reasonView(reason, query),
    canBeLabelled && labelButtons(group, i, k, putLabel));
}

/** A judge of whole lists gives one reason for all rollouts: it is folded behind what it says of this one. */
function reasonView(reason, query) {
  const at = reason.indexOf(WHOLE_LIST);
  if (at < 0) return h("p", { class: "reason" }, marked(reason, query));
  const listReason = reason.slice(at + WHOLE_LIST.length);
  const isHit = Boolean(query) && listReason.toLowerCase().includes(query.trim().toLowerCase());
  return [
    h("p", { class: "reason" }, marked(reason.slice(0, at), query)),
    h("details", { class: "reason", open: isHit },
      h("summary", {}, "Reason for the whole list"),
      h("p", {}, marked(listReason, query))),
  ];
}

/** Blue: better than the group on this criterion; orange: worse; red: stopped the rollout. */
function verdictColour(group, i, k) {
  if (group.gate?.stopped_by[i].includes(group.criteria[k].name)) return "stopped";
  const utility = k < group.ranked && group.utilities ? group.utilities[i][k] : 0;
  if (utility > 0) return "better";
  return utility < 0 ? "worse" : "";
}

function scoreText(group, i, k) {
  if (group.scores[i][k] !== null) return number(group.scores[i][k]);
  return k < group.ranked && isCompared(group, i, k) ? winsAndLosses(group, i, k, true) : "missing";
}

function contributionText(group, i, k, utility) {
  const value = group.values?.[i][k];
  const { weight } = group.criteria[k];
  const adds = isNumber(value) ? `, adds ${signed(weight * value)}` : "";
  const product = isNumber(value) && weight !== 1 ? ` (${number(weight)} × ${signed(value)})` : "";
  return `utility ${signed(utility)}${adds}${product}`;
}

// ------------------------------------------------------------------------------------------------------------- labels

/** Agree, disagree, or another score. A label is what a person says the score should be. */
function labelButtons(group, i, k, putLabel) {
  const criterion = group.criteria[k];
  const score = group.scores[i][k];
  const label = group.labels?.[criterion.name]?.[i] ?? null;
  const [low, high] = criterion.domain;
  const agrees = label !== null && label === score;
  const button = (text, isPressed, value) => h("button", {
    type: "button",
    class: "tiny",
    "aria-pressed": String(isPressed),
    "aria-label": `${text}: ${criterion.name}`,
    // A second click takes the label back.
    onclick: () => putLabel(criterion.name, isPressed ? null : value),
  }, text);
  // Of two possible scores the other one is right; in between, the far end is where a correction starts.
  const otherScore = score - low < high - score ? high : low;
  const input = h("input", {
    type: "number",
    step: "any",
    min: low,
    max: high,
    value: label,
    "aria-label": `Your score for ${criterion.name}`,
    onchange: (event) => putLabel(criterion.name, event.target.value === "" ? null : Number(event.target.value)),
  });
  return h("div", { class: "label-buttons" },
    button("Accept", agrees, score),
    button("Reject", label !== null && !agrees, otherScore),
    label !== null && h("label", {}, "your score ", input),
    label !== null && !agrees && chip("corrected", "info"));
}
