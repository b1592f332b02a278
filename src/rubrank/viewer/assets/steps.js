// A run over its steps: shares of groups without signal, curves of the criteria, and links to the groups of each step.

import { lineChart, meter } from "./charts.js";
import { h, replaceChildren, tile } from "./dom.js";
import { csvOf, download } from "./save.js";
import { sortableTable } from "./tables.js";
import { count, percent, plural, sum } from "./numbers.js";

const CURVE_KINDS = [["run", "The run"], ["criterion", "Mean score of each criterion"], ["attribute", "Length and form"]];

export function drawSteps(section, run, state, navigate) {
  replaceChildren(section, h("h2", {}, run.name), stepTiles(run, state), plots([run]), stepTable(run, navigate));
}

function stepTiles(run, state) {
  const groups = sum(run.table.map((row) => row.groups));
  const rollouts = sum(run.table.map((row) => row.rollouts));
  const stopped = sum(run.table.map((row) => row.stopped * row.rollouts));
  // A row holds shares of the groups of its step; over the run they are weighted by the number of groups.
  const shareOfGroups = (key) => sum(run.table.map((row) => row[key] * row.groups)) / Math.max(1, groups);
  const { steps } = state;
  const stepRange = steps.length
    ? `${plural(steps.length, "step")}, ${steps[0]} to ${steps[steps.length - 1]}`
    : "no steps recorded";
  const judgesFailed = shareOfGroups("judges_failed");
  return h("dl", { class: "tiles" },
    tile("Groups", count(state.groups), stepRange),
    tile("Rollouts", count(rollouts), state.files ? plural(state.files, "file") : ""),
    tile("Criteria", count(state.criteria.length), state.rules.join(", ")),
    tile("Without signal", percent(shareOfGroups("no_signal"), 1), "of groups: nothing to learn"),
    tile("Stopped by a gate", percent(rollouts ? stopped / rollouts : 0, 1), "of rollouts"),
    judgesFailed > 0 && tile("Judges failed", percent(judgesFailed, 1), "of groups"),
    tile("Rules disagree", percent(shareOfGroups("rules_disagree"), 1), "of groups"),
    tile("The longest wins", percent(shareOfGroups("longest_wins"), 1), "of groups"));
}

/** Curves of one run, or of several in the same charts. */
export function plots(runs) {
  return CURVE_KINDS.flatMap(([kind, title]) => {
    const curvesOf = (run) => run.curves.filter((curve) => curve.kind === kind);
    const drawable = runs.flatMap(curvesOf).filter((curve) => curve.points.length > 1);
    const names = [...new Set(drawable.map((curve) => curve.name))];
    const charts = names.map((name) => {
      const lines = runs.map((run) => ({
        name: run.name,
        points: curvesOf(run).find((curve) => curve.name === name)?.points || [],
      }));
      return lineChart(name, lines, { percent: kind === "run" && name !== "spread of rewards" });
    }).filter(Boolean);
    return charts.length ? [h("h3", {}, title), h("div", { class: "plots" }, charts)] : [];
  });
}

function stepTable(run, navigate) {
  const groupsLink = (row, state, child) => {
    const open = () => navigate({ view: "groups", step: row.step ?? "", state, group: undefined, rollout: undefined });
    return h("button", { type: "button", class: "plain-link", onclick: open }, child);
  };
  const numberColumn = (title, key) =>
    ({ title, key: (row) => row[key], class: "number", cell: (row) => count(row[key]) });
  /** A share of a step's groups, which opens the list of these groups. */
  const shareColumn = (title, key, state) => ({
    title,
    key: (row) => row[key],
    class: "share",
    cell: (row) => {
      const share = row[key];
      if (!(share > 0)) return meter(share, percent(share));
      return groupsLink(row, state, meter(share, percent(share, share < 0.1 ? 1 : 0)));
    },
  });
  const columns = [
    {
      title: "Step",
      key: (row) => row.step,
      class: "number",
      cell: (row) => groupsLink(row, "", row.step === null ? "none" : String(row.step)),
    },
    numberColumn("Groups", "groups"),
    numberColumn("Rollouts", "rollouts"),
    shareColumn("Without signal", "no_signal", "noSignal"),
    shareColumn("Stopped by a gate", "stopped", "stopped"),
    shareColumn("Judges failed", "judges_failed", "judgesFailed"),
    shareColumn("Rules disagree", "rules_disagree", "rulesDisagree"),
    shareColumn("The longest wins", "longest_wins", "longestWins"),
  ];

  const keys = Object.keys(run.table[0] || {});
  const saveCsv = () => {
    const cells = run.table.map((row) => keys.map((key) => row[key]));
    download("steps.csv", "text/csv", csvOf([keys, ...cells]));
  };
  const save = h("button", { type: "button", class: "tiny", onclick: saveCsv }, "CSV");
  const rows = run.table.slice().reverse(); // the latest step first
  return h("div", { class: "steps-table" },
    h("h3", {}, "Steps ", save),
    sortableTable({ caption: "Steps", columns, rows, most: 30 }));
}
