// Several runs or checkpoints: curves over each other, and the prompts that they share.

import { writeAddress } from "./address.js";
import { choice, h, replaceChildren } from "./dom.js";
import { sortableTable } from "./tables.js";
import { plural, signed } from "./numbers.js";
import { plots } from "./steps.js";

const chosen = { first: 0, second: 1 };

export function drawCompare(section, runs, app) {
  const names = runs.map((run, i) => [String(i), run.name]), body = h("div", {});
  const shared = async () => {
    const { common, total } = await app.data.common(chosen.first, chosen.second);
    replaceChildren(body, common.length ? sharedTable(common, runs) : h("p", { class: "muted" }, "No prompt is in both, in what is read so far."),
      total > common.length && h("p", { class: "muted" }, `The first ${plural(common.length, "prompt")} of ${total}.`));
  };
  const pick = (key) => (value) => { chosen[key] = Number(value); shared().catch(app.fail); };
  replaceChildren(section, h("h2", {}, "Runs compared"), plots(runs),
    h("h3", {}, "The same prompts"), h("p", { class: "lead" }, "Mean scores of all criteria, at the last step at which each run was asked: what differs most comes first."),
    h("div", { class: "controls" }, choice("Run", names, String(chosen.first), pick("first")), choice("and", names, String(chosen.second), pick("second"))), body);
  shared().catch(app.fail);
}

function sharedTable(common, runs) {
  const link = (run, g, text) => h("a", { href: writeAddress({ view: "groups", run, group: g }) }, text);
  const step = (value) => (value === null ? "open" : `step ${value}`);
  const columns = [
    { title: "Prompt", key: (row) => row.id, class: "wide", cell: (row) => [h("strong", {}, row.id), h("small", { class: "prompt-title" }, row.title)] },
    { title: runs[chosen.first].name, key: (row) => row.means[0], cell: (row) => link(chosen.first, row.groups[0], step(row.steps[0])) },
    { title: runs[chosen.second].name, key: (row) => row.means[1], cell: (row) => link(chosen.second, row.groups[1], step(row.steps[1])) },
    { title: "Difference", key: (row) => row.means[1] - row.means[0], class: "number", cell: (row) => signed(row.means[1] - row.means[0], 3), hint: "Mean score over criteria, second minus first" },
  ];
  return sortableTable({ caption: "Prompts in both runs", columns, rows: common, most: 50 });
}
