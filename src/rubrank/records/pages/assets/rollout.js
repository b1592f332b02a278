// One rollout: why it got its reward, what it did and says, and every verdict on it.

import { h, scrolled } from "./dom.js";
import { count, fixedSigned, general, isNumber, signed } from "./numbers.js";
import { conversation, lengthOf, marked, reasoningView, textBlock, turnsTitle } from "./texts.js";
import { explainRollout, isKnown, standing } from "./words.js";

/** query: words to mark. */
export function rolloutView(group, i, query) {
  const answer = group.responses?.[i], turns = group.turns?.[i] || [];
  return [
    explanation(group, i),
    turns.length > 0 && h("details", { class: "before", open: turns.length <= 8 }, h("summary", {}, `On the way: ${turnsTitle(turns)}`), conversation(turns, query)),
    answer !== undefined && h("section", { class: "text", "aria-label": "Response" }, turns.length > 0 && h("b", { class: "role" }, "answer"), reasoningView(group.thoughts?.[i], query), textBlock(answer, "said answer", query),
      h("p", { class: "muted measure" }, `${count(lengthOf(answer))} characters`)),
    verdicts(group, i, query),
  ];
}

function explanation(group, i) {
  const [head, ...lines] = explainRollout(group, i).split("\n");
  const added = lines.some((line) => line.includes(" → "));
  return h("div", { class: "why" }, h("p", { class: "headline" }, head), lines.map((line) => h("p", {}, emphasised(line.trim()))),
    added && h("small", { class: "key" }, h("span", { class: "added" }, "+"), " what a criterion adds to the sum that the rollouts are ranked by: its weight × its utility"));
}

/** The name in front of the colon stands out, and what was added, too. */
function emphasised(line) {
  const at = line.indexOf(": "), arrow = line.lastIndexOf(" → ");
  const body = arrow > at ? line.slice(at, arrow) : line.slice(at);
  return [h("b", {}, line.slice(0, at)), body, arrow > at && h("span", { class: line[arrow + 3] === "-" ? "added minus" : "added" }, line.slice(arrow + 3))];
}

const LAYERS = { global_quality: "hard gate", low_quality: "soft gate" };

function verdicts(group, i, query) {
  const rows = group.criteria.map((criterion, k) => h("tr", {},
    h("th", { scope: "row" }, criterion.name, h("small", {}, ` ${LAYERS[criterion.layer] || criterion.by}`)),
    h("td", { class: group.scores[i][k] === null ? "number muted" : "number" }, scoreText(group, i, k)),
    h("td", { class: "number" }, k < group.K && group.utilities ? signed(group.utilities[i][k]) : ""),
    h("td", { class: "number" }, k < group.K ? addedCell(group, i, k) : ""),
    h("td", { class: "reason" }, marked(group.reasons?.[i][k] || "", query))));
  const hints = { Utility: "Fitted from who beats whom on this criterion in this group, before weights", Added: "Weight × utility, after attributes and span: what goes into the sum" };
  const head = ["Criterion", "Score", "Utility", "Added", "Reason"].map((title) => h("th", { scope: "col", title: hints[title], class: ["Score", "Utility", "Added"].includes(title) ? "number" : null }, title));
  return h("details", { open: true }, h("summary", {}, "Scores and reasons"),
    scrolled("Scores and reasons", h("table", { class: "verdicts" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows))),
    group.utilities && h("p", { class: "muted" }, utilityNote(group)));
}

function scoreText(group, i, k) {
  if (group.scores[i][k] !== null) return general(group.scores[i][k]);
  return k < group.K && isKnown(group, i, k) ? winsAndLosses(group, i, k, true) : "missing";
}

/** Such as "5–2", with ties where they are asked for: "5–2, 1 tie". */
export function winsAndLosses(group, i, k, ties) {
  const [won, tied, lost] = standing(group, i, k);
  return `${won}–${lost}${ties && tied ? `, ${tied} ${tied > 1 ? "ties" : "tie"}` : ""}`;
}

/** What the words say was added, and how it comes from the utility. */
function addedCell(group, i, k) {
  const value = group.values?.[i][k], utility = group.utilities?.[i][k];
  if (!isNumber(value)) return "";
  const turned = isNumber(utility) && Math.abs(value - utility) > 0.005;
  const how = group.weights[k] === 1 && !turned ? null : `${general(group.weights[k])} × ${signed(value)}`;
  return [fixedSigned(group.weights[k] * value).replace("-", "−"), how && h("small", {}, how)];
}

function utilityNote(group) {
  const turned = group.utilities.some((row, i) => row.some((u, k) => isNumber(u) && Math.abs(u - (group.values[i][k] ?? u)) > 0.005));
  const why = [group.gamma && "attributes were taken out", group.scale && "the criterion was scaled to its span"].filter(Boolean).join(" and ");
  return `Utility: how far a rollout is ahead of its group on this criterion. Added: its weight × that${turned ? `, after ${why || "adjustment"}` : ""}.`;
}
