// Several runs or checkpoints: how two of them differ on the prompts that they share, and curves over each other.

import { writeAddress } from "./address.js";
import { choice, h, replaceChildren } from "./dom.js";
import { count, number, percent, plural, signed } from "./numbers.js";
import { curveControls, groupsOfStep, plots } from "./steps.js";
import { sortableTable } from "./tables.js";

const KIND_TITLES = { run: "run", criterion: "criterion", attribute: "length and form" };

export async function drawCompare(section, runs, app) {
  const { first, second } = chosenRuns(app);
  const names = runs.map((run, i) => [String(i), run.name]);
  const pick = (key) => (value) => app.navigate({ first, second, [key]: Number(value) }, true);
  const [differences, shared] = await Promise.all([app.data.compare(first, second), app.data.common(first, second)]);
  const openStep = (step, line) => app.navigate({ view: "groups", run: line.run, ...groupsOfStep(step, runs[line.run]) });
  const steps = runs.flatMap((run) => run.steps).sort((a, b) => a - b);
  const curves = plots(runs, app, openStep);
  const hasCurves = runs.some((run) => run.steps.length > 1);
  replaceChildren(section,
    h("h2", {}, "Runs compared"),
    h("div", { class: "controls" },
      choice("Run", names, String(first), pick("first")),
      choice("against", names, String(second), pick("second"))),
    differenceView(differences, runs[first].name, runs[second].name),
    h("h3", {}, "Curves"),
    hasCurves ? [curveControls(app, steps, curves), curves] : h("p", { class: "muted" }, "No run has several steps."),
    sharedView(shared, runs, first, second));
}

/** The two runs that the address names, by default the first two. */
function chosenRuns({ address, runs }) {
  const isRun = (number) => number !== undefined && number < runs.length;
  return {
    first: isRun(address.first) ? address.first : 0,
    second: isRun(address.second) ? address.second : 1,
  };
}

/** Second minus first on the same prompts, with intervals; the most certain differences come first. */
function differenceView({ prompts, rows }, firstName, secondName) {
  if (!prompts) return h("p", { class: "muted" }, "The two runs share no prompt so far, so only their curves can be compared.");
  const lead = `${secondName} minus ${firstName}: mean over ${plural(prompts, "shared prompt")}, each at the last step that used it, with its 95% interval.`;
  // How many half intervals the difference is away from 0.
  const certainty = (row) => (row.half ? Math.abs(row.difference) / row.half : 0);
  const sorted = rows.slice().sort((a, b) => certainty(b) - certainty(a));
  const write = (row, value) => (row.kind === "run" ? percent(value, 1) : number(value));
  const difference = (row) => {
    const interval = row.half === null ? "" : ` ± ${number(row.half)}`;
    const isSure = certainty(row) > 1;
    return h("span", { class: isSure ? "sure" : "muted" }, signed(row.difference, 3), h("small", {}, interval));
  };
  const columns = [
    { title: "Measure", key: (row) => row.name, class: "wide", cell: (row) => [h("span", { class: "name" }, row.name), h("small", {}, ` ${KIND_TITLES[row.kind]}`)] },
    { title: firstName, key: (row) => row.first, class: "number", cell: (row) => write(row, row.first) },
    { title: secondName, key: (row) => row.second, class: "number", cell: (row) => write(row, row.second) },
    { title: "Difference", key: (row) => row.difference, class: "number", cell: difference, hint: "Second minus first; bold where the interval excludes 0" },
    { title: "Prompts", key: (row) => row.prompts, class: "number", cell: (row) => count(row.prompts) },
  ];
  return [
    h("h3", {}, "Differences"),
    h("p", { class: "lead" }, lead),
    sortableTable({ caption: "Differences of two runs", columns, rows: sorted, most: 30 }),
  ];
}

function sharedView({ common, total }, runs, first, second) {
  const lead = "Mean scores over all criteria at the last step that used the prompt; the largest differences come first.";
  const isCut = total > common.length;
  return [
    h("h3", {}, "The same prompts"),
    h("p", { class: "lead" }, lead),
    common.length ? sharedTable(common, runs, first, second) : h("p", { class: "muted" }, "No prompt is in both runs so far."),
    isCut && h("p", { class: "muted" }, `The first ${plural(common.length, "prompt")} of ${total}.`),
  ];
}

function sharedTable(common, runs, first, second) {
  const link = (run, g, step) => {
    const text = step === null ? "open" : `step ${step}`;
    return h("a", { href: writeAddress({ view: "groups", run, group: g }) }, text);
  };
  const columns = [
    { title: "Prompt", key: (row) => row.id, class: "wide", cell: (row) => [h("strong", {}, row.id), h("small", { class: "prompt-title" }, row.title)] },
    { title: runs[first].name, key: (row) => row.means[0], cell: (row) => link(first, row.groups[0], row.steps[0]) },
    { title: runs[second].name, key: (row) => row.means[1], cell: (row) => link(second, row.groups[1], row.steps[1]) },
    {
      title: "Difference",
      key: (row) => row.means[1] - row.means[0],
      class: "number",
      cell: (row) => signed(row.means[1] - row.means[0], 3),
      hint: "Mean score over criteria, second minus first",
    },
  ];
  return sortableTable({ caption: "Prompts in both runs", columns, rows: common, most: 50 });
}
