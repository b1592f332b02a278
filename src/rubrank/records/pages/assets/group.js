// One group: prompt, rollouts × criteria from best to worst, one rollout, two side by side, who beats whom, attributes, other rules.

import { meter } from "./charts.js";
import { sideBySide } from "./diff.js";
import { chip, choice, h, nameParts, replaceChildren, scrolled } from "./dom.js";
import { heatTable } from "./heat.js";
import { matrices } from "./matrix.js";
import { count, fixed, general, isNumber, number, plural, signed, sum } from "./numbers.js";
import { rolloutView, winsAndLosses } from "./rollout.js";
import { conversation, lengthOf } from "./texts.js";
import { coefficient, isKnown, standing } from "./words.js";

/** options: {chips, rule, query, rollout, onRollout(i), linkTo(i), before, after}: what the page around it knows. */
export class GroupView {
  constructor(group, options) {
    this.group = group;
    this.options = options;
    this.order = group.reward.map((_, i) => i).sort((a, b) => group.reward[b] - group.reward[a] || a - b);
    this.chosen = group.reward[options.rollout] === undefined ? this.order[0] : options.rollout;
    this.other = null;
    this.place = h("div", { class: "rollout", id: "rollout" });
    this.rows = [];
    this.buttons = [];
  }

  /** The elements, to be put somewhere. */
  nodes() {
    const { group, options } = this;
    const table = this.table();
    if (this.order.length) this.draw();
    return [
      h("h3", { class: "group-name", tabindex: "-1" }, group.id), options.chips, options.before, promptView(group.prompt, options.query),
      table, this.order.length > 0 && this.place, h("h4", {}, "Who beats whom"), ...matrices(group),
      attributeView(group), othersView(group, options.rule), options.after,
    ];
  }

  choose(i) {
    this.chosen = i;
    if (this.other === i) this.other = null;
    this.draw();
    this.options.onRollout?.(i);
  }

  /** The next rollout in the order of the table, or the one before. */
  move(by) {
    const at = this.order.indexOf(this.chosen) + by;
    if (at >= 0 && at < this.order.length) this.choose(this.order[at]);
  }

  compareWith(i) {
    this.other = i;
    this.draw();
  }

  /** Beside the best of the others, or alone again. */
  toggleCompare() {
    this.compareWith(this.other === null ? this.order.find((i) => i !== this.chosen) ?? null : null);
  }

  draw() {
    const { group, chosen, other, options } = this;
    this.buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(at === chosen)));
    this.rows.forEach((row, at) => row.classList.toggle("chosen", this.order[at] === chosen));
    const rivals = this.order.filter((i) => i !== chosen).map((i) => [String(i), `rollout ${i} (${fixed(group.reward[i])})`]);
    const head = h("div", { class: "rollout-head" }, h("h4", {}, `Rollout ${chosen}`),
      options.linkTo && h("a", { class: "permalink", href: options.linkTo(chosen), title: "A link to this rollout" }, "link"),
      group.responses && rivals.length > 0 && choice("Compare with", [["", "none"], ...rivals], other === null ? "" : String(other), (i) => this.compareWith(i === "" ? null : Number(i))));
    const beside = other !== null && group.responses && sideBySide(group.responses[chosen], group.responses[other],
      [`Rollout ${chosen}, reward ${fixed(group.reward[chosen])}`, `Rollout ${other}, reward ${fixed(group.reward[other])}`]);
    replaceChildren(this.place, head, beside, rolloutView(group, chosen, options.query));
  }

  /** Scores, utilities, and who wins how often; choosing a row shows the rollout below. */
  table() {
    const { group } = this;
    const head = h("tr", {}, h("th", { scope: "col" }, "Rollout"), h("th", { scope: "col", class: "reward" }, "Reward"), group.gate && h("th", { scope: "col" }, "Gate"),
      group.weights.map((w, k) => h("th", { scope: "col", class: "number", title: group.criteria[k].name }, h("span", { class: "head-name" }, nameParts(group.criteria[k].name)), h("small", {}, ` ×${general(w)}`))));
    this.rows = this.order.map((i) => {
      const button = h("button", { type: "button", "aria-pressed": "false", onclick: () => this.choose(i) }, `${i}`);
      this.buttons[i] = button;
      return h("tr", { onclick: (event) => { if (event.target !== button) this.choose(i); } }, h("th", { scope: "row" }, button),
        h("td", { class: "reward" }, meter(group.reward[i], fixed(group.reward[i]))),
        group.gate && h("td", {}, gateCell(group, i)), group.weights.map((_, k) => scoreCell(group, i, k)));
    });
    return scrolled("Rollouts", h("table", { class: "rollouts" },
      h("caption", { class: "quiet-caption" }, "Rollouts from best to worst: score, utility below it, and the share of wins, ties and losses"), h("thead", {}, head), h("tbody", {}, this.rows)));
  }
}

function promptView(prompt, query) {
  if (!prompt.length) return h("p", { class: "muted" }, "The record holds no prompt.");
  const length = sum(prompt.map(({ text }) => lengthOf(text)));
  return h("details", { class: "prompt", open: length < 900 }, h("summary", {}, `Prompt, ${plural(prompt.length, "message")}, ${count(length)} characters`), conversation(prompt, query));
}

function gateCell(group, i) {
  const { passed, factor } = group.gate;
  if (!passed[i]) return chip(`stopped, was ${fixed(group.ranking[i])}`, "bad");
  return factor[i] < 1 ? chip(`× ${fixed(factor[i])}`, "warn") : h("span", { class: "muted" }, "passed");
}

function scoreCell(group, i, k) {
  const score = group.scores[i][k], utility = group.utilities ? group.utilities[i][k] : null, known = isKnown(group, i, k);
  const most = group.utilities ? Math.max(1e-9, ...group.utilities.map((row) => Math.abs(row[k] || 0))) : 1;
  const heat = isNumber(utility) ? `${Math.round((34 * Math.abs(utility)) / most)}%` : "0%";
  const [won, tied, lost] = standing(group, i, k), all = Math.max(1, won + tied + lost);
  const title = known ? `beats ${won}, ties ${tied}, loses to ${lost}${isNumber(utility) ? `; utility ${signed(utility)}` : ""}` : "missing: not compared";
  return h("td", { class: `number ${utility < 0 ? "minus" : "plus"}`, "--heat": heat, title },
    score === null ? (known ? winsAndLosses(group, i, k) : "–") : number(score), isNumber(utility) && h("small", {}, signed(utility)),
    known && h("i", { class: "standing", "aria-hidden": "true", "--won": `${((100 * won) / all).toFixed(0)}%`, "--tied": `${((100 * (won + tied)) / all).toFixed(0)}%` }));
}

function attributeView(group) {
  if (!group.names.length || !group.attributes) return null;
  const values = h("table", { class: "verdicts" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Rollout"), group.names.map((name) => h("th", { scope: "col", class: "number" }, name)))),
    h("tbody", {}, group.attributes.map((row, i) => h("tr", {}, h("th", { scope: "row" }, String(i)), row.map((x) => h("td", { class: "number" }, x === null ? "–" : general(x)))))));
  const most = group.gamma && Math.max(1e-9, ...group.gamma.flat().map((x) => Math.abs(x || 0)));
  return h("details", { class: "attributes" }, h("summary", {}, `Attributes: ${group.names.join(", ")}`),
    h("div", { class: "pair" }, scrolled("Attributes of the rollouts", values),
      group.gamma && heatTable({ caption: "γ by criterion", corner: "γ", rows: group.weights.map((_, k) => group.criteria[k].name), columns: group.names,
        cell: (k, d) => group.gamma[k][d] / most, format: (x) => signed(x * most),
        title: (k, d) => `${coefficient(group, k, d)}${group.taken ? `, ${signed(group.taken[k][d])} taken out` : ""}` })));
}

function othersView(group, rule) {
  if (!group.others.length) return null;
  const columns = [[rule, group.reward], ...group.others];
  const best = columns.map(([, rewards]) => Math.max(...rewards));
  const rows = group.reward.map((_, i) => h("tr", {}, h("th", { scope: "row" }, String(i)),
    columns.map(([, rewards], c) => h("td", { class: rewards[i] === best[c] ? "number best" : "number" }, number(rewards[i])))));
  return h("details", {}, h("summary", {}, `Under ${plural(group.others.length, "other rule")}`), scrolled("Rewards under other rules",
    h("table", { class: "verdicts" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Rollout"), columns.map(([name]) => h("th", { scope: "col", class: "number" }, name)))), h("tbody", {}, rows))));
}
