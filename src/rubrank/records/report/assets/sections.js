// Conflicts, attributes, gates, rules, steps: the parts between the criteria and the groups.

import { lineChart, meter, whiskers } from "./charts.js";
import { reasonList } from "./criteria.js";
import { add, choice, h, replaceChildren } from "./dom.js";
import { heatTable, sortableTable } from "./heat.js";
import { count, isNumber, number, percent, plural, signed } from "./numbers.js";
import { tile } from "./summary.js";

export function drawConflicts(section, { names, tau, groups, left_out: leftOut, all }) {
  if (names.length < 2) return void add(section, h("p", { class: "muted" }, "A single criterion cannot conflict."));
  const body = h("div", {}), enough = [1, 2, 5, 10, 20, 50, 100, 200].filter((n) => n === 1 || n <= all);
  const draw = (least) => replaceChildren(body, conflictsOf(names, tau, groups, Number(least)));
  const start = String(enough.filter((n) => n <= Math.max(5, all / 100)).pop());
  add(section,
    h("p", { class: "lead" }, "Kendall's τ-b within groups, averaged over the groups in which both criteria tell rollouts apart: −1 when one always prefers what the other rejects, +1 when they order alike, 0 when they have nothing to do with each other."),
    choice("Pairs seen in at least", enough.map((n) => [String(n), plural(n, "group")]), start, draw), body,
    leftOut > 0 && h("p", { class: "muted" }, `The ${names.length} criteria that most groups ask for; ${count(leftOut)} others are not shown.`));
  draw(start);
}

/** What fewer than `least` groups say is left out: one group proves no conflict. */
function conflictsOf(names, tau, groups, least) {
  const pairs = [], many = names.length > 6;
  names.forEach((a, i) => names.forEach((b, j) => { if (i < j && isNumber(tau[i][j]) && groups[i][j] >= least) pairs.push([tau[i][j], a, b, groups[i][j]]); }));
  pairs.sort((a, b) => a[0] - b[0]);
  const sentence = ([t, a, b, n]) => h("li", {}, h("b", {}, signed(t)), ` ${a} and ${b}, in ${plural(n, "group")}`);
  const card = (title, some) => h("div", { class: "card" }, h("h3", {}, title), some.length ? h("ul", { class: "reasons" }, some.map(sentence)) : h("p", { class: "muted" }, pairs.length ? "No pair does." : `No pair is seen in ${plural(least, "group")} or more.`));
  return [
    h("div", { class: "pair" }, card("Pull against each other", pairs.filter(([t]) => t < -0.05).slice(0, 5)), card("Say nearly the same", pairs.filter(([t]) => t > 0.8).reverse().slice(0, 5))),
    heatTable({
      caption: "Kendall's τ between criteria", rows: names.map((name, i) => (many ? `${i + 1} ${name}` : name)), columns: names.map((name, i) => (many ? String(i + 1) : name)), columnTitles: names,
      cell: (i, j) => (i === j || groups[i][j] < least ? null : tau[i][j]),
      title: (i, j) => (i === j ? names[i] : `${names[i]} and ${names[j]}: ${signed(tau[i][j])} in ${plural(groups[i][j], "group")}`),
    }),
  ];
}

export function drawAttributes(section, { gamma, correlation }) {
  if (!correlation.attributes.length && !gamma.attributes.length) {
    return void add(section, h("p", { class: "muted" }, "No attributes were recorded, and there are no texts to measure."));
  }
  if (correlation.attributes.length) add(section, correlations(correlation));
  if (gamma.attributes.length) add(section, gammas(gamma));
}

function correlations({ attributes, rules, r, half, groups }) {
  const rows = attributes.map((attribute, d) => ({
    name: attribute.name, value: r[d][0], half: half[d][0],
    note: `mean ${number(attribute.mean)}${attribute.measured ? "" : ", recorded"}, differs in ${plural(groups[d][0], "group")}`,
  })).filter((row) => isNumber(row.value));
  const most = Math.max(0.25, ...rows.map((row) => Math.min(1, Math.abs(row.value) + (row.half || 0))));
  return h("div", { class: "card" }, h("h3", {}, `Does the reward of ${rules[0]} follow them?`),
    h("p", { class: "lead" }, "Spearman's correlation within groups, averaged over groups, with its 95% interval. 0: no relation. To the right: more of it goes with more reward."),
    rows.length ? whiskers(rows, most) : h("p", { class: "muted" }, "Nothing differs within any group."),
    rules.length > 1 && h("details", {}, h("summary", {}, `The same under ${plural(rules.length - 1, "other reward")}`),
      heatTable({ caption: "Correlation of rewards with attributes", rows: attributes.map((a) => a.name), columns: rules, cell: (d, i) => r[d][i],
        title: (d, i) => `${attributes[d].name}, ${rules[i]}: ${signed(r[d][i])}${isNumber(half[d][i]) ? ` ± ${half[d][i].toFixed(2)}` : ""}, ${plural(groups[d][i], "group")}` })));
}

function gammas({ attributes, criteria, points, taken }) {
  const body = h("div", {});
  const name = (k) => criteria[k] || "all criteria, by weight";
  function draw(k) {
    const curves = attributes.map((attribute, d) => ({ attribute, d, points: points[`${d}|${k}`] || [] })).filter((c) => c.points.length);
    const single = curves.every((curve) => curve.points.length === 1);
    const out = (d) => (isNumber(taken[d]) ? `${signed(taken[d])} taken out` : "");
    if (!curves.length) return replaceChildren(body, h("p", { class: "muted" }, "It tells no rollouts apart in any group."));
    if (single) {
      const rows = curves.map(({ attribute, d, points: [[, mean, half, n]] }) => ({ name: attribute, value: mean, half, note: `${plural(n, "group")}, ${out(d)}` }));
      const most = Math.max(0.2, ...rows.map((row) => Math.abs(row.value) + (row.half || 0)));
      return replaceChildren(body, whiskers(rows, 1.1 * most, rows.some((row) => row.half === null) && "Without an interval: fewer than two groups, or fitted group by group in fewer than five."));
    }
    return replaceChildren(body, h("div", { class: "plots" }, curves.map((curve) => lineChart(curve.attribute, [curve], { zero: true, note: out(curve.d) }))));
  }
  draw(0);
  return h("div", { class: "card" }, h("h3", {}, "What winning goes with: γ"),
    h("p", { class: "lead" }, "γ > 0: responses with more of the attribute win on the criterion more often than their utilities say. With its 95% interval: of the estimate over all groups, or of the mean where each group was fitted by itself. Criteria that tell no rollouts apart in a group, or that a program decided, do not count there."),
    choice("On", criteria.map((_, k) => [String(k), name(k)]), "0", (k) => draw(Number(k))), body);
}

export function drawGates(section, gates, showGroups) {
  if (!gates.rollouts) return void add(section, h("p", { class: "muted" }, "No gate was recorded."));
  const rate = (n) => percent(n / gates.rollouts, 1);
  const rows = gates.criteria.slice().sort((a, b) => b.hit / b.asked - a.hit / a.asked);
  const most = Math.max(...rows.map((row) => row.hit / row.asked), 1e-9);
  add(section,
    h("dl", { class: "tiles" },
      tile("Stopped", rate(gates.stopped), `${plural(gates.stopped, "rollout")}: reward 0`),
      tile("Softened", rate(gates.softened), `${plural(gates.softened, "rollout")}: reward multiplied`),
      tile("Groups touched", percent(gates.touched / gates.groups, 1), `${count(gates.touched)} of ${count(gates.groups)}`),
      tile("Reward taken", isNumber(gates.lost) ? gates.lost.toFixed(3) : "–", "mean over rollouts")),
    h("div", { class: "actions" }, h("button", { type: "button", onclick: () => showGroups({ state: "gated" }) }, "Show the groups touched")),
    h("ul", { class: "gates" }, rows.map((row) => h("li", {},
      h("span", { class: "name" }, row.name, h("small", {}, row.hard ? " hard" : " soft")),
      h("span", { class: row.hard ? "rate bad" : "rate warn", "--at": `${(100 * (row.hit / row.asked)) / most}%` }, h("i", { "aria-hidden": "true" }), h("b", {}, percent(row.hit / row.asked, 1)), ` ${row.hard ? "stopped" : "unclean"}`),
      row.missing > 0 && h("small", { class: "muted" }, `${percent(row.missing / row.asked, 0)} not decided`),
      row.reasons.length > 0 && h("details", {}, h("summary", {}, "Reasons"), reasonList(row.reasons))))));
}

export function drawRules(section, rules, showGroups) {
  if (rules.names.length < 2) return void add(section, h("p", { class: "muted" }, "One rule only. `rubrank replay` computes others on the same rollouts."));
  if (!rules.groups) return void add(section, h("p", { class: "muted" }, "No group has rewards under all rules."));
  const table = (caption, measure, format) => h("div", { class: "card" }, h("h3", {}, caption), heatTable({
    caption, rows: rules.names, columns: rules.names, cell: (i, j) => (i === j ? null : rules[measure][i][j]), format,
    title: (i, j) => `${rules.names[i]} and ${rules.names[j]}: ${format(rules[measure][i][j])}` }));
  const columns = [
    { title: "Rule", key: (row) => row.name, cell: (row) => row.name, class: "wide" },
    { title: "Mean reward", key: (row) => row.mean, cell: (row) => number(row.mean), class: "number" },
    { title: "Without signal", key: (row) => row.none, cell: (row) => percent(row.none, 1), class: "number" },
    { title: "Same winner as the first", key: (row) => row.winner, cell: (row) => meter(row.winner) },
  ];
  const rows = rules.names.map((name, i) => ({ name, mean: rules.mean[i], none: rules.no_signal[i], winner: rules.winner[0][i] }));
  add(section,
    h("p", { class: "lead" }, `${plural(rules.groups, "group")} with rewards under ${rules.names.length} rules. Agreement is about the order within a group; rewards of different rules are on different scales.`),
    sortableTable({ caption: "Rules", columns, rows }),
    h("div", { class: "actions" }, h("button", { type: "button", onclick: () => showGroups({ state: "rulesDisagree" }) }, "Show groups in which rules disagree")),
    h("div", { class: "pair" }, table("Kendall's τ between rules", "kendall", signed), table("Same winner", "winner", (x) => percent(x)), table("Same side of the group's mean", "signs", (x) => percent(x))));
}

export function drawSteps(section, { steps, curves, width }) {
  const kinds = [["run", "The run"], ["criterion", "Mean score of each criterion"], ["attribute", "Length and form"]];
  add(section, h("p", { class: "lead" }, "Means over the groups of a step, with 95% intervals. A reward relative to its group has nearly the same mean at every step, however good the policy gets: progress shows in the criteria.",
    width > 1 && ` Each point is ${width} steps.`));
  for (const [kind, title] of kinds) {
    const some = curves.filter((curve) => curve.kind === kind && curve.points.length > 1);
    if (some.length) add(section, h("h3", {}, title), h("div", { class: "plots" }, some.map((curve) => lineChart(curve.name, [curve], { percent: kind === "run" && curve.name !== "mean reward", note: curve.name === "mean reward" ? "is not progress" : null }))));
  }
  return steps.length > 1;
}
