// One group in two panes: rollouts × criteria from best to worst with what belongs to the group, and the chosen rollout.

import { meter } from "./charts.js";
import { sideBySide } from "./diff.js";
import { chip, choice, h, nameParts, replaceChildren, s, scrolled } from "./dom.js";
import { rewardBefore } from "./edit.js";
import { STATE } from "./filters.js";
import { count, fixed, isNumber, number, percent, plural, signed, sum } from "./numbers.js";
import { isCompared, rolloutView, standing, winsAndLosses } from "./rollout.js";
import { heatTable } from "./tables.js";
import { conversation, lengthOf } from "./texts.js";

const CELL = 14; // pixels of a cell of the matrix
const MOST_MATRICES = 24; // rollouts from which only one matrix is drawn: many large ones would be slow and unreadable
const NUMBERED_ROWS = 40; // of a matrix; larger ones have no room for numbers
const SHORT_PROMPT = 160; // characters of a prompt that is open at first

/** options: {query, rollout, onRollout(i), linkTo(i), putLabel(i, criterion, score), before, after}: what the page knows. */
export class GroupView {
  constructor(group, options) {
    this.group = group;
    this.options = options;
    this.order = group.reward.map((_, i) => i).sort((a, b) => group.reward[b] - group.reward[a] || a - b);
    this.chosen = group.reward[options.rollout] === undefined ? this.order[0] : options.rollout;
    this.other = null; // the rollout that the chosen one is compared with
    this.place = h("div", { class: "rollout", id: "rollout" });
    this.rows = [];
    this.buttons = [];
  }

  /** The elements of the pane in the middle. */
  matrixNodes() {
    const { group, options } = this;
    return [
      h("h2", { class: "group-name", tabindex: "-1" }, group.id),
      groupChips(group),
      promptView(group.prompt || [], options.query),
      this.rolloutTable(),
      options.before,
      h("details", { class: "who-beats-whom" }, h("summary", {}, "Who beats whom"), ...outcomeMatrices(group)),
      attributeView(group),
      otherRulesView(group),
      options.after,
    ];
  }

  /** The element of the pane on the right. */
  rolloutNode() {
    if (this.order.length) this.drawRollout();
    return this.place;
  }

  choose(i) {
    this.chosen = i;
    if (this.other === i) this.other = null;
    this.drawRollout();
    this.options.onRollout?.(i);
  }

  /** The next rollout in the order of the table, or the one before. */
  move(by) {
    const at = this.order.indexOf(this.chosen) + by;
    if (at >= 0 && at < this.order.length) this.choose(this.order[at]);
  }

  compareWith(i) {
    this.other = i;
    this.drawRollout();
  }

  /** Beside the best of the others, or alone again. */
  toggleCompare() {
    const best = this.order.find((i) => i !== this.chosen) ?? null;
    this.compareWith(this.other === null ? best : null);
  }

  drawRollout() {
    const { group, chosen, other, options } = this;
    this.buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === chosen)));
    this.rows.forEach((row, at) => row.classList.toggle("chosen", this.order[at] === chosen));
    const title = (i) => `Rollout ${i}, reward ${fixed(group.reward[i])}`;
    const comparison = other !== null && group.responses
      && sideBySide(group.responses[chosen], group.responses[other], [title(chosen), title(other)]);
    const putLabel = options.putLabel && ((criterion, score) => options.putLabel(chosen, criterion, score));
    replaceChildren(this.place,
      this.rolloutHead(),
      comparison,
      rolloutView(group, chosen, options.query, putLabel));
  }

  rolloutHead() {
    const { group, chosen, other, options } = this;
    const rivals = this.order
      .filter((i) => i !== chosen)
      .map((i) => [String(i), `rollout ${i} (${fixed(group.reward[i])})`]);
    const compare = group.responses && rivals.length > 0
      && choice("Compare with", [["", "none"], ...rivals], other === null ? "" : String(other),
        (i) => this.compareWith(i === "" ? null : Number(i)));
    return h("div", { class: "rollout-head" },
      h("h2", {}, `Rollout ${chosen}`),
      h("span", { class: "rollout-reward" }, `reward ${fixed(group.reward[chosen])}`),
      h("a", { class: "permalink", href: options.linkTo(chosen), title: "A link to this rollout" }, "link"),
      compare);
  }

  /** Scores, utilities, and who wins how often; choosing a row shows the rollout. */
  rolloutTable() {
    const { group } = this;
    const ranked = group.criteria.slice(0, group.ranked);
    const criterionHead = (criterion) => h("th", { scope: "col", class: "number", title: criterion.name },
      h("span", { class: "head-name" }, nameParts(criterion.name)),
      h("small", {}, ` ×${number(criterion.weight)}`));
    const head = h("tr", {},
      h("th", { scope: "col" }, "Rollout"),
      h("th", { scope: "col", class: "reward" }, "Reward"),
      group.gate && h("th", { scope: "col" }, "Gate"),
      ranked.map(criterionHead));
    this.rows = this.order.map((i) => this.rolloutRow(i, ranked));
    const caption = "Rollouts from best to worst: score, utility below it, and the share of wins, ties and losses";
    return scrolled("Rollouts", h("table", { class: "rollouts" },
      h("caption", { class: "quiet-caption" }, caption),
      h("thead", {}, head),
      h("tbody", {}, this.rows)));
  }

  rolloutRow(i, ranked) {
    const { group } = this;
    const button = h("button", { type: "button", "aria-pressed": "false", "aria-label": `Rollout ${i}` }, `${i}`);
    this.buttons[i] = button;
    const before = rewardBefore(group, i);
    return h("tr", { onclick: () => this.choose(i) },
      h("th", { scope: "row" }, button),
      h("td", { class: "reward" }, meter(group.reward[i], fixed(group.reward[i])), before && h("small", {}, before)),
      group.gate && h("td", {}, gateCell(group, i)),
      ranked.map((_, k) => scoreCell(group, i, k)));
  }
}

function groupChips(group) {
  return h("p", { class: "chips" },
    isNumber(group.step) && chip(`step ${group.step}`),
    chip(plural(group.reward.length, "rollout")),
    chip(group.rule),
    group.is_changed && chip("changed", "info", `Recorded under ${group.recorded.rule}`),
    stateChips(group, true),
    group.flags.filter((flag) => flag !== "no signal").map((flag) => chip(flag, "plain")));
}

/** Chips for the noteworthy states of a group; all: also those that the list has no room for. */
export function stateChips({ states, stopped }, all) {
  const has = (state) => Boolean(states & STATE[state]);
  return [
    all && has("noSignal") && chip("no signal", "warn"),
    stopped > 0 && chip(`${stopped} stopped`, "bad"),
    all && stopped === 0 && has("softened") && chip("softened", "warn"),
    has("rulesDisagree") && chip("rules disagree", "info", "Another rule chooses another winner"),
    all && has("judgesFailed") && chip("judges failed", "bad", "A judge was asked and gave no verdict"),
    all && has("longestWins") && chip("the longest wins", "warn"),
  ];
}

function promptView(messages, query) {
  if (!messages.length) return h("p", { class: "muted" }, "The record holds no prompt.");
  const length = sum(messages.map((message) => lengthOf(message.content)));
  const title = `Prompt, ${plural(messages.length, "message")}, ${count(length)} characters`;
  return h("details", { class: "prompt", open: length <= SHORT_PROMPT },
    h("summary", {}, title),
    conversation(messages, query));
}

function gateCell(group, i) {
  const { passed, factor, stopped_by: stoppedBy } = group.gate;
  if (!passed[i]) return chip(`stopped, was ${fixed(group.ranking[i])}`, "bad", stoppedBy[i].join(", "));
  if (factor[i] < 1) return chip(`× ${fixed(factor[i])}`, "warn");
  return h("span", { class: "muted" }, "passed");
}

function scoreCell(group, i, k) {
  const score = group.scores[i][k];
  const utility = group.utilities ? group.utilities[i][k] : null;
  const compared = isCompared(group, i, k);
  const largest = group.utilities ? Math.max(1e-9, ...group.utilities.map((row) => Math.abs(row[k] || 0))) : 1;
  const heat = isNumber(utility) ? `${Math.round((34 * Math.abs(utility)) / largest)}%` : "0%";
  const [won, tied, lost] = standing(group, i, k);
  const all = Math.max(1, won + tied + lost);
  const share = (part) => `${((100 * part) / all).toFixed(0)}%`;
  const utilityText = isNumber(utility) ? `; utility ${signed(utility)}` : "";
  const title = compared ? `beats ${won}, ties ${tied}, loses to ${lost}${utilityText}` : "missing: not compared";
  let scoreText = "–";
  if (score !== null) scoreText = number(score);
  else if (compared) scoreText = winsAndLosses(group, i, k);
  return h("td", { class: `number ${utility < 0 ? "minus" : "plus"}`, "--heat": heat, title },
    scoreText,
    isNumber(utility) && h("small", {}, signed(utility)),
    compared && h("i", { class: "standing", "aria-hidden": "true", "--won": share(won), "--tied": share(won + tied) }));
}

// ----------------------------------------------------------------------------------------------------- who beats whom

/** For every criterion, rows against columns. Wins are filled, ties are dots, losses are outlined: not by colour alone. */
function outcomeMatrices(group) {
  const ranked = group.criteria.slice(0, group.ranked).map((_, k) => k);
  const deciding = ranked.filter((k) => group.outcomes[k].some((row) => /[WL]/.test(row)));
  const silent = ranked.filter((k) => !deciding.includes(k)).map((k) => group.criteria[k].name);
  const draw = (k) => {
    const decides = group.effective_weights?.[k];
    return h("figure", { class: "small-matrix", "--side": `${16 + group.reward.length * CELL}px` },
      h("figcaption", {},
        nameParts(group.criteria[k].name),
        isNumber(decides) && h("small", {}, ` decides ${percent(decides)}`)),
      outcomeMatrix(group, k));
  };
  const body = h("div", { class: "matrices" });
  const oneAtATime = group.reward.length > MOST_MATRICES && deciding.length > 1;
  replaceChildren(body, (oneAtATime ? deciding.slice(0, 1) : deciding).map(draw));
  const options = deciding.map((k) => [String(k), group.criteria[k].name]);
  const legend = (kind, text) => h("span", {}, h("i", { class: kind }), text);
  return [
    oneAtATime && choice("Criterion", options, String(deciding[0]), (k) => replaceChildren(body, draw(Number(k)))),
    body,
    h("p", { class: "muted legend" },
      legend("win", "row beats column"),
      legend("tie", "tie"),
      legend("loss", "row loses"),
      h("span", {}, "empty: not compared")),
    silent.length > 0 && h("p", { class: "muted" }, `Do not tell rollouts apart: ${silent.join(", ")}`),
  ];
}

function outcomeMatrix(group, k) {
  const rows = group.outcomes[k];
  const size = rows.length;
  const margin = size <= NUMBERED_ROWS ? 16 : 2;
  const side = margin + size * CELL;
  // One path for all cells of a kind: a matrix of 100 rollouts would otherwise be 10,000 elements.
  const paths = { W: "", T: "", L: "" };
  rows.forEach((row, i) => [...row].forEach((letter, j) => {
    const x = margin + j * CELL;
    const y = margin + i * CELL;
    if (letter === "W") paths.W += `M${x + 1} ${y + 1}h${CELL - 2}v${CELL - 2}h${2 - CELL}z`;
    if (letter === "L") paths.L += `M${x + 3} ${y + 3}h${CELL - 6}v${CELL - 6}h${6 - CELL}z`;
    if (letter === "T") paths.T += `M${x + CELL / 2 - 1.5} ${y + CELL / 2 - 1.5}h3v3h-3z`;
  }));
  const numbers = size > NUMBERED_ROWS ? [] : rows.flatMap((_, i) => [
    s("text", { x: margin - 4, y: margin + i * CELL + 10.5, "text-anchor": "end" }, String(i)),
    s("text", { x: margin + i * CELL + CELL / 2, y: margin - 5, "text-anchor": "middle" }, String(i)),
  ]);
  const words = rows.map((_, i) => {
    const [won, tied, lost] = standing(group, i, k);
    return isCompared(group, i, k) ? `${i} beats ${won}, ties ${tied}, loses to ${lost}` : `${i} not compared`;
  });
  const label = `${group.criteria[k].name}: ${words.join(". ")}`;
  return s("svg", { class: "matrix", viewBox: `0 0 ${side} ${side}`, role: "img", "aria-label": label },
    s("rect", { class: "ground", x: margin, y: margin, width: size * CELL, height: size * CELL }),
    numbers,
    paths.W && s("path", { class: "win", d: paths.W }),
    paths.T && s("path", { class: "tie", d: paths.T }),
    paths.L && s("path", { class: "loss", d: paths.L }));
}

// --------------------------------------------------------------------------------------- attributes and other rules

function attributeView(group) {
  if (!group.attribute_names || !group.attributes) return null;
  const names = group.attribute_names;
  return h("details", { class: "attributes" },
    h("summary", {}, `Attributes: ${names.join(", ")}`),
    h("div", { class: "pair" },
      scrolled("Attributes of the rollouts", attributeTable(group, names)),
      group.gamma && gammaTable(group, names)));
}

function attributeTable(group, names) {
  const heads = names.map((name) => h("th", { scope: "col", class: "number" }, name));
  const rows = group.attributes.map((row, i) => h("tr", {},
    h("th", { scope: "row" }, String(i)),
    row.map((value) => h("td", { class: "number" }, number(value)))));
  return h("table", { class: "verdicts" },
    h("caption", { class: "quiet-caption" }, "Attributes of the rollouts"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Rollout"), heads)),
    h("tbody", {}, rows));
}

function gammaTable(group, names) {
  const criteria = group.criteria.slice(0, group.ranked).map((criterion) => criterion.name);
  const largest = Math.max(1e-9, ...group.gamma.flat().map((gamma) => Math.abs(gamma || 0)));
  const describe = (k, d) => {
    const error = isNumber(group.gamma_error?.[k][d]) ? ` (se ${fixed(group.gamma_error[k][d])})` : "";
    const taken = group.taken ? `, ${signed(group.taken[k][d])} taken out` : "";
    return `γ of ${names[d]} on ${criteria[k]}: ${signed(group.gamma[k][d])}${error}${taken}`;
  };
  return heatTable({
    caption: "γ by criterion",
    corner: "γ",
    rows: criteria,
    columns: names,
    cell: (k, d) => (isNumber(group.gamma[k][d]) ? group.gamma[k][d] / largest : null),
    format: (share) => signed(share * largest),
    title: describe,
  });
}

function otherRulesView(group) {
  const others = Object.entries(group.others || {});
  if (!others.length) return null;
  const columns = [[group.rule, group.reward], ...others];
  const best = columns.map(([, rewards]) => Math.max(...rewards));
  const rows = group.reward.map((_, i) => h("tr", {},
    h("th", { scope: "row" }, String(i)),
    columns.map(([, rewards], c) => h("td", { class: rewards[i] === best[c] ? "number best" : "number" }, number(rewards[i])))));
  const heads = columns.map(([name]) => h("th", { scope: "col", class: "number" }, name));
  return h("details", {},
    h("summary", {}, `Under ${plural(others.length, "other rule")}`),
    scrolled("Rewards under other rules", h("table", { class: "verdicts" },
      h("caption", { class: "quiet-caption" }, "Rewards under other rules"),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Rollout"), heads)),
      h("tbody", {}, rows))));
}
