// A run over its steps: how many groups there are to learn from, how criteria go, and a way into the groups of each step.

import { lineChart, meter } from "./charts.js";
import { h, replaceChildren, tile } from "./dom.js";
import { csvOf, download } from "./save.js";
import { sortableTable } from "./tables.js";
import { count, percent, plural } from "./numbers.js";

const CURVE_KINDS = [["run", "The run"], ["criterion", "Mean score of each criterion"], ["attribute", "Length and form"]];

export function drawSteps(section, run, state, navigate) {
  replaceChildren(section, h("h2", {}, run.name), stepTiles(run, state), plots([run]), stepTable(run, navigate));
}

function stepTiles(run, state) {
  const total = (key) => run.table.reduce((sum, row) => sum + row[key] * row.groups, 0) / Math.max(1, run.table.reduce((sum, row) => sum + row.groups, 0));
  const rollouts = run.table.reduce((sum, row) => sum + row.rollouts, 0), stopped = run.table.reduce((sum, row) => sum + row.stopped * row.rollouts, 0);
  const steps = state.steps.length;
  return h("dl", { class: "tiles" },
    tile("Groups", count(state.groups), steps ? `${plural(steps, "step")}, ${state.steps[0]} to ${state.steps[steps - 1]}` : "no steps recorded"),
    tile("Rollouts", count(rollouts), state.files ? plural(state.files, "file") : ""),
    tile("Criteria", count(state.criteria.length), state.rules.join(", ")),
    tile("Without signal", percent(total("no_signal"), 1), "of groups: nothing to learn"),
    tile("Stopped by a gate", percent(rollouts ? stopped / rollouts : 0, 1), "of rollouts"),
    total("judges_failed") > 0 && tile("Judges failed", percent(total("judges_failed"), 1), "of groups"),
    tile("Rules disagree", percent(total("rules_disagree"), 1), "of groups"),
    tile("The longest wins", percent(total("longest_wins"), 1), "of groups"));
}

/** Curves of one run, or of several over each other. */
export function plots(runs) {
  return CURVE_KINDS.map(([kind, title]) => {
    const names = [...new Set(runs.flatMap((run) => run.curves.filter((curve) => curve.kind === kind && curve.points.length > 1).map((curve) => curve.name)))];
    const drawn = names.map((name) => {
      const lines = runs.map((run) => ({ name: run.name, points: run.curves.find((curve) => curve.kind === kind && curve.name === name)?.points || [] }));
      return lineChart(name, lines, { percent: kind === "run" && name !== "spread of rewards" });
    }).filter(Boolean);
    return drawn.length > 0 && [h("h3", {}, title), h("div", { class: "plots" }, drawn)];
  }).filter(Boolean).flat();
}

function stepTable(run, navigate) {
  const share = (title, key, state) => ({ title, key: (row) => row[key], class: "share",
    cell: (row) => (row[key] > 0 && state ? h("button", { type: "button", class: "plain-link", onclick: () => navigate({ view: "groups", step: row.step ?? "", state, group: undefined, rollout: undefined }) }, meter(row[key], percent(row[key], row[key] < 0.1 ? 1 : 0))) : meter(row[key], percent(row[key]))) });
  const columns = [
    { title: "Step", key: (row) => row.step, class: "number", cell: (row) => h("button", { type: "button", class: "plain-link", onclick: () => navigate({ view: "groups", step: row.step ?? "", state: "", group: undefined, rollout: undefined }) }, row.step === null ? "none" : String(row.step)) },
    { title: "Groups", key: (row) => row.groups, class: "number", cell: (row) => count(row.groups) },
    { title: "Rollouts", key: (row) => row.rollouts, class: "number", cell: (row) => count(row.rollouts) },
    share("Without signal", "no_signal", "noSignal"), share("Stopped by a gate", "stopped", "stopped"),
    share("Judges failed", "judges_failed", "judgesFailed"), share("Rules disagree", "rules_disagree", "rulesDisagree"), share("The longest wins", "longest_wins", "longestWins"),
  ];
  const keys = Object.keys(run.table[0] || {});
  const save = h("button", { type: "button", class: "tiny", onclick: () => download("steps.csv", "text/csv", csvOf([keys, ...run.table.map((row) => keys.map((key) => row[key]))])) }, "CSV");
  return h("div", { class: "steps-table" }, h("h3", {}, "Steps ", save), sortableTable({ caption: "Steps", columns, rows: run.table.slice().reverse(), most: 30 }));
}
