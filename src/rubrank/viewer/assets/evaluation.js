// Benchmarks: points out of 100 with their 95% intervals, as bars and as a table, and curves of checkpoints.

import { intervalBars, lineChart } from "./charts.js";
import { h, replaceChildren } from "./dom.js";
import { isNumber } from "./numbers.js";
import { sortableTable } from "./tables.js";

const MOST_POINTS = 100;

/** evaluation: what rubrank.evaluation.table.report_data makes. */
export function drawEvaluation(section, evaluation) {
  const { columns, rows, intervals, notes, curves } = evaluation;
  const charts = columns.map((title, c) => {
    const bars = rows.map((row, r) => {
      const [low, high] = intervals?.[r][c] || [null, null];
      return { name: row.model, value: row.points[c], low, high };
    });
    return h("figure", { class: "card" }, h("figcaption", {}, h("strong", {}, title)), intervalBars(bars, MOST_POINTS));
  });
  const model = { title: "Model", key: (row) => row.model, cell: (row) => row.model, class: "wide" };
  const points = columns.map((title, c) => ({
    title,
    key: (row) => row.points[c],
    cell: (row) => (isNumber(row.points[c]) ? row.points[c].toFixed(2) : "–"),
    class: "number",
  }));
  replaceChildren(section,
    h("h2", {}, "Benchmarks"),
    h("p", { class: "lead" }, "Points out of 100; the line on a bar is its 95% interval over items. The average of a capability is over those of its benchmarks that were run, and has no interval. A dash means: not run."),
    h("div", { class: "bar-cards" }, charts),
    sortableTable({ caption: "Benchmarks and capabilities", rows, columns: [model, ...points] }),
    curves.length > 0 && [h("h3", {}, "Over training"), h("div", { class: "plots" }, curves.map((curve) => lineChart(curve.name, [curve])))],
    h("h3", {}, "How each number was made"),
    h("ul", { class: "reasons" }, notes.map((note) => h("li", {}, note))));
}
