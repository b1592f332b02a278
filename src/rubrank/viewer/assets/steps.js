// A run over its steps: shares of groups without signal, curves of the criteria, and links to the groups of each step.

import { lineChart, meter } from "./charts.js";
import { choice, h, replaceChildren, tile } from "./dom.js";
import { csvOf, download } from "./save.js";
import { sortableTable } from "./tables.js";
import { count, percent, plural, sum } from "./numbers.js";

const CURVE_KINDS = [["run", "The run"], ["criterion", "Mean score of each criterion"], ["attribute", "Length and form"]];

export function drawSteps(section, run, app) {
  const { address } = app;
  const openStep = (step) => app.navigate({ view: "groups", ...groupsOfStep(step, run) });
  const curves = plots([{ ...run, colour: address.run }], app, openStep);
  replaceChildren(section,
    h("h2", {}, run.name),
    stepTiles(run, app.run),
    run.steps.length > 1 && curveControls(app, run.steps, curves),
    curves,
    stepTable(run, (changes) => app.navigate(changes)));
}

/** Keys of the address that list the groups behind a point of a curve. */
export function groupsOfStep(step, run) {
  const last = run.last_steps[run.steps.indexOf(step)];
  const steps = last > step ? `${step}-${last}` : String(step);
  return { step: steps, state: undefined, group: undefined, rollout: undefined, changes: undefined };
}

const SMOOTHINGS = [["", "none"], ["3", "3 points"], ["5", "5 points"], ["11", "11 points"], ["25", "25 points"]];

/** Smoothing and the range of steps, for all charts at once; both are part of the address. */
export function curveControls(app, steps, curves) {
  const { address } = app;
  const setNumber = (key) => (event) => app.navigate({ [key]: event.target.value === "" ? undefined : Number(event.target.value) }, true);
  const stepField = (title, key, placeholder) => h("label", { class: "field narrow" },
    h("span", {}, title),
    h("input", { type: "number", min: 0, value: address[key] ?? "", placeholder, onchange: setNumber(key) }));
  const isZoomed = address.from !== undefined || address.to !== undefined;
  const wholeRun = () => app.navigate({ from: undefined, to: undefined }, true);
  return h("div", { class: "controls curve-controls" },
    choice("Smoothing", SMOOTHINGS, String(address.smooth ?? ""), (value) => app.navigate({ smooth: value ? Number(value) : undefined }, true)),
    stepField("From step", "from", String(steps[0] ?? "")),
    stepField("to step", "to", String(steps[steps.length - 1] ?? "")),
    isZoomed && h("button", { type: "button", onclick: wholeRun }, "Whole run"),
    h("p", { class: "muted" }, curves.length > 0
      ? "Drag over a chart to zoom. Click a point to see its groups."
      : "No points between these steps."));
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

/** Curves of one run, or of several in the same charts. openStep(step, line): show the groups behind a point. */
export function plots(runs, app, openStep) {
  const { smooth, from = -Infinity, to = Infinity } = app.address;
  const options = {
    smooth,
    range: [from, to],
    onStep: openStep,
    onZoom: (first, last) => app.navigate({ from: Math.max(0, first), to: Math.max(0, last) }, true),
  };
  return CURVE_KINDS.flatMap(([kind, title]) => {
    const curvesOf = (run) => run.curves.filter((curve) => curve.kind === kind);
    const drawable = runs.flatMap(curvesOf).filter((curve) => curve.points.length > 1);
    const names = [...new Set(drawable.map((curve) => curve.name))];
    const isZero = (name) => drawable.filter((curve) => curve.name === name).every((curve) => curve.points.every((point) => point[1] === 0));
    const draw = (name) => {
      const lines = runs.map((run, i) => ({
        name: run.name,
        run: i,
        colour: run.colour ?? i,
        points: curvesOf(run).find((curve) => curve.name === name)?.points || [],
      }));
      const isSpread = kind === "run" && name === "spread of rewards"; // unlike shares it may exceed 1 under some rules
      return lineChart(name, lines, { ...options, percent: kind === "run" && !isSpread, notNegative: isSpread });
    };
    const charts = names.filter((name) => !isZero(name)).map(draw).filter(Boolean);
    const zeros = names.filter(isZero);
    if (!charts.length && !zeros.length) return [];
    return [
      h("h3", {}, title),
      h("div", { class: "plots" }, charts),
      zeros.length > 0 && h("details", { class: "zeros" },
        h("summary", {}, `${plural(zeros.length, "curve")} at 0 throughout`),
        h("p", { class: "muted" }, zeros.join(", "))),
    ];
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
    ...(run.table.some((row) => row.judges_failed > 0) ? [shareColumn("Judges failed", "judges_failed", "judgesFailed")] : []),
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
