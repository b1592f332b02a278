// One rollout: why it got its reward, what it did and said, and every verdict on it.

import { h, scrolled } from "./dom.js";
import { count, isNumber, number, signed } from "./numbers.js";
import { conversation, lengthOf, marked, reasoningView, textBlock, turnsTitle } from "./texts.js";

const LAYERS = { global_quality: "hard gate", low_quality: "soft gate", watch: "watched" };

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

/** query: words to mark. */
export function rolloutView(group, i, query) {
  const turns = group.turns?.[i] || [], response = group.responses?.[i];
  return [
    explanationView(group.explanations[i]),
    turns.length > 0 && h("details", { class: "before", open: turns.length <= 8 }, h("summary", {}, `Before the answer: ${turnsTitle(turns)}`), conversation(turns, query)),
    response !== undefined && h("section", { class: "text", "aria-label": "Response" },
      turns.length > 0 && h("b", { class: "role" }, "answer"), reasoningView(group.reasoning?.[i], query), textBlock(response, "said answer", query),
      h("p", { class: "muted measure" }, `${count(lengthOf(response))} characters`)),
    verdictTable(group, i, query),
  ];
}

/** The words of `rubrank explain`, with names and contributions set off. */
function explanationView(explanation) {
  const [headline, ...lines] = explanation.split("\n");
  const hasContributions = lines.some((line) => line.includes(" → "));
  return h("div", { class: "why" }, h("p", { class: "headline" }, headline), lines.map((line) => h("p", {}, setOff(line.trim()))),
    hasContributions && h("small", { class: "key" }, h("span", { class: "added" }, "+"), " what a criterion adds to the sum that ranks the rollouts: its weight × its utility"));
}

function setOff(line) {
  const colon = line.indexOf(": "), arrow = line.lastIndexOf(" → ");
  if (arrow <= colon) return [h("b", {}, line.slice(0, colon)), line.slice(colon)];
  const isNegative = line[arrow + 3] === "-";
  return [h("b", {}, line.slice(0, colon)), line.slice(colon, arrow), h("span", { class: isNegative ? "added minus" : "added" }, line.slice(arrow + 3))];
}

function verdictTable(group, i, query) {
  const hints = { Utility: "Fitted from who beats whom on this criterion in this group, before weights", Added: "Weight × utility, after attributes and span: what goes into the sum" };
  const head = ["Criterion", "Score", "Utility", "Added", "Reason"].map((title) => h("th", { scope: "col", title: hints[title], class: ["Score", "Utility", "Added"].includes(title) ? "number" : null }, title));
  const rows = group.criteria.map((criterion, k) => h("tr", {},
    h("th", { scope: "row" }, criterion.name, h("small", {}, ` ${LAYERS[criterion.layer] || criterion.decided_by}`)),
    h("td", { class: group.scores[i][k] === null ? "number muted" : "number", title: probabilityText(group, i, criterion) }, scoreText(group, i, k), probabilityText(group, i, criterion) && h("small", {}, ` ${probabilityText(group, i, criterion)}`)),
    h("td", { class: "number" }, k < group.ranked && group.utilities ? signed(group.utilities[i][k]) : ""),
    h("td", { class: "number" }, k < group.ranked ? contributionCell(group, i, k) : ""),
    h("td", { class: "reason" }, marked(group.reasons?.[i][k] || "", query))));
  return h("details", { open: true }, h("summary", {}, "Scores and reasons"),
    scrolled("Scores and reasons", h("table", { class: "verdicts" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows))));
}

function probabilityText(group, i, criterion) {
  return group.probabilities?.[criterion.name]?.[i] || null;
}

function scoreText(group, i, k) {
  if (group.scores[i][k] !== null) return number(group.scores[i][k]);
  return k < group.ranked && isCompared(group, i, k) ? winsAndLosses(group, i, k, true) : "missing";
}

function contributionCell(group, i, k) {
  const value = group.values?.[i][k], weight = group.criteria[k].weight;
  if (!isNumber(value)) return "";
  return [signed(weight * value), weight !== 1 && h("small", {}, `${number(weight)} × ${signed(value)}`)];
}
