// The capability table, and benchmarks over the steps of training.

import { lineChart } from "./charts.js";
import { add, h } from "./dom.js";
import { sortableTable } from "./heat.js";
import { isNumber } from "./numbers.js";

/** false where no evaluation was given: the section stays hidden. */
export function drawEvaluation(section, evaluation) {
  if (!evaluation || !evaluation.rows.length) return false;
  const { columns, rows, notes, curves } = evaluation;
  add(section,
    h("p", { class: "lead" }, "Points out of 100. A capability's average is that of its benchmarks that were run; a dash was not run. Settings, judge and the number scored are below."),
    sortableTable({ caption: "Benchmarks and capabilities", rows, columns: [
      { title: "Model", key: (row) => row.model, cell: (row) => row.model, class: "wide" },
      ...columns.map((title, i) => ({ title, key: (row) => row.points[i], cell: (row) => (isNumber(row.points[i]) ? row.points[i].toFixed(2) : "–"), class: "number" })),
    ] }),
    curves.length > 0 && h("div", { class: "plots" }, curves.map((curve) => lineChart(curve.name, [curve]))),
    h("ul", { class: "reasons" }, notes.map((note) => h("li", {}, note))));
  return true;
}
