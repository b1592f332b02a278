// Each criterion: what it says, how often it tells rollouts apart, and what it weighs in the end.

import { bars, meter } from "./charts.js";
import { add, h } from "./dom.js";
import { sortableTable } from "./heat.js";
import { count, isNumber, number, percent, plural, signed } from "./numbers.js";

export function drawCriteria(section, data, showGroups) {
  const rows = data.criteria.rows;
  const most = Math.max(0.01, ...rows.map((row) => Math.max(row.nominal || 0, Math.abs(row.effective || 0))));
  const leftOut = data.criteria.left_out;
  const columns = [
    { title: "Criterion", key: (row) => row.name, cell: nameOf, class: "wide" },
    { title: "Scores", cell: (row) => (row.compared_groups === row.groups ? h("span", { class: "muted" }, "compared, not scored") : bars(row.distribution, `Scores of ${row.name}`)) },
    { title: "Mean", key: (row) => row.mean, cell: (row) => number(row.mean), class: "number" },
    { title: "Tells apart", key: (row) => row.apart, cell: (row) => meter(row.apart), hint: "Share of all pairs within groups that it tells apart: neither tied nor missing" },
    { title: "Has signal", key: (row) => row.signal, cell: (row) => meter(row.signal), hint: "Share of groups in which it tells rollouts apart" },
    { title: "Ties", key: (row) => row.ties, cell: (row) => percent(row.ties), class: "number", hint: "Share of the compared pairs that tie" },
    { title: "Missing", key: (row) => row.missing / row.rollouts, cell: (row) => (row.missing ? percent(row.missing / row.rollouts, 1) : "0"), class: "number" },
    { title: "Weight", key: (row) => row.effective, cell: (row) => weights(row, most), hint: "Nominal: share of the weights. Effective: share of the variance of what was added up" },
    { title: "With reward", key: (row) => row.with_reward, cell: (row) => signed(row.with_reward), class: "number", hint: "Kendall's τ-b with the ranking before the gate, mean over groups" },
  ];
  const how = data.criteria.effective_by === "parts" ? "each group's variance of the weighted sum" : "the variance of rewards within groups that scores explain";
  add(section,
    h("p", { class: "lead" }, "A criterion that ties all rollouts costs nothing and says nothing. Its effective weight is its share of ", how, ": it may differ much from the weight it was given."),
    sortableTable({ caption: "Criteria", columns, rows, detail: (row) => detailOf(row, showGroups) }),
    leftOut > 0 && h("p", { class: "muted" }, `${count(leftOut)} criteria that fewer groups ask for are not shown.`),
  );
}

function nameOf(row) {
  const layer = { quality: null, global_quality: "hard gate", low_quality: "soft gate" }[row.layer];
  return [h("span", { class: "name" }, row.name), h("small", {}, row.decided_by, layer && ` · ${layer}`)];
}

function weights(row, most) {
  if (!isNumber(row.nominal)) return h("span", { class: "muted" }, "–");
  const at = (share) => `${(100 * Math.min(1, Math.abs(share || 0) / most)).toFixed(1)}%`;
  return h("div", { class: "weights" },
    h("span", { class: "nominal", "--at": at(row.nominal) }, h("i", {}), h("b", {}, percent(row.nominal)), h("small", {}, "nominal")),
    h("span", { class: (row.effective || 0) < 0 ? "effective minus" : "effective", "--at": at(row.effective) }, h("i", {}), h("b", {}, percent(row.effective)), h("small", {}, "effective")));
}

function detailOf(row, showGroups) {
  const facts = [
    ["Asked", `${plural(row.rollouts, "rollout")} in ${plural(row.groups, "group")}`],
    ["Better is", row.direction === "higher" ? "higher" : "lower"],
    ["Margin", row.margin ? `differences up to ${number(row.margin)} tie` : "every difference counts"],
    row.family && ["Family", row.family],
    row.compared_groups && ["Compared", `instead of scored, in ${plural(row.compared_groups, "group")}`],
    ["Missing", `${count(row.missing)} of ${count(row.rollouts)}`],
  ].filter(Boolean);
  return h("div", { class: "pair" },
    h("div", {}, bars(row.distribution, `Scores of ${row.name}`, true)),
    h("div", {}, h("dl", { class: "facts" }, facts.map(([key, value]) => h("div", {}, h("dt", {}, key), h("dd", {}, value)))),
      row.missing_reasons.length > 0 && [h("h4", {}, "Why scores are missing"), reasonList(row.missing_reasons)],
      h("button", { type: "button", onclick: () => showGroups({ criterion: row.name }) }, "Show its groups")));
}

export function reasonList(reasons) {
  return h("ul", { class: "reasons" }, reasons.map(([text, n]) => h("li", {}, h("b", {}, count(n)), " ", text)));
}
