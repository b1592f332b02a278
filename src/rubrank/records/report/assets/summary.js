// The run in a few numbers. The mean reward is none of them: relative to its group, it stays where it is.

import { bars } from "./charts.js";
import { add, h } from "./dom.js";
import { count, number, percent, plural } from "./numbers.js";

export function tile(label, value, note) {
  return h("div", { class: "tile" }, h("dt", {}, label), h("dd", {}, value, note && h("small", {}, note)));
}

export function drawSummary(section, data) {
  const o = data.overview, sizes = Object.keys(o.sizes);
  const size = sizes.length === 1 ? `${sizes[0]} each` : `${sizes[0]} to ${sizes[sizes.length - 1]} each`;
  const rules = Object.keys(o.rules);
  const tiles = [
    tile("Groups", count(o.groups), o.steps ? `${plural(o.steps, "step")}${o.steps > 1 ? `, ${o.first_step} to ${o.last_step}` : ""}` : "no steps recorded"),
    tile("Rollouts", count(o.rollouts), size),
    tile("Criteria", count(o.criteria), `${count(data.criteria.rows.filter((row) => row.layer === "quality").length)} ranked by`),
    tile(rules.length > 1 ? "Rules" : "Rule", rules.length > 1 ? count(rules.length) : rules[0], rules.length > 1 ? rules.join(", ") : others(data)),
    tile("Without signal", percent(o.no_signal / o.groups, 1), `${plural(o.no_signal, "group")}: all rewards equal`),
    tile("Stopped by a gate", o.with_gate ? percent(o.stopped / o.rollouts, 1) : "–", o.with_gate ? `${count(o.stopped)} of ${plural(o.rollouts, "rollout")}` : "no gate recorded"),
    tile("Missing scores", percent(o.missing / Math.max(1, o.scores), 1), `${count(o.missing)} of ${count(o.scores)}`),
    agreementTile(o),
    judgesTile(o.judging),
  ];
  section.querySelector("p")?.remove();
  add(section, h("dl", { class: "tiles" }, tiles),
    h("div", { class: "pair" },
      h("div", { class: "card" }, h("h3", {}, "Rewards within groups"), bars(o.rewards, "Distribution of reward", true),
        h("p", { class: "muted" }, "A reward is relative to its group: over a run its mean says nothing about progress. Look at the criteria over the steps.")),
      h("div", { class: "card" }, h("h3", {}, "What the records say"), judgingOf(o.judging), metadataOf(o), packingOf(data))));
}

/** Criteria as replicates: how far they say the same, and the standard error of what they say together. */
function agreementTile(o) {
  if (!o.agreement_groups) return tile("Agreement", "–", "needs two that tell rollouts apart");
  return tile("Agreement", number(o.agreement, 2), `mean of ${plural(o.agreement_groups, "group")}; standard error of the sum ${number(o.error, 2)}`);
}

function judgesTile(judging) {
  if (!judging) return tile("Judges", "–", "none asked, or not recorded");
  const { asked, missing = 0, calls } = judging;
  if (!asked) return tile("Judges", count(calls || 0), "calls");
  return tile("Judges failed", percent(missing / asked, 1), `${count(missing)} of ${plural(asked, "answer")} missing`);
}

/** Calls, cost and failures of the judges, added up over the run. */
function judgingOf(judging) {
  if (!judging) return null;
  const { asked, missing = 0, calls, hits, cost, input_tokens: read = 0, output_tokens: wrote = 0, failures } = judging;
  const failed = Object.entries(failures || {});
  const rows = [
    asked && ["Answers asked for", `${count(asked)}, ${missing ? `${count(missing)} missing` : "none missing"}`],
    calls !== undefined && ["Calls", `${count(calls)}${hits ? `, and ${count(hits)} answered from the cache` : ""}`],
    read + wrote > 0 && ["Tokens", `${count(read)} read, ${count(wrote)} written`],
    cost !== undefined && ["Cost", number(cost)],
    failed.length > 0 && ["Failures", failed.map(([why, n]) => `${why} (${count(n)})`).join(", ")],
  ].filter(Boolean);
  return [h("h4", {}, "Judges"), h("dl", { class: "facts" }, rows.map(([key, value]) => h("div", {}, h("dt", {}, key), h("dd", {}, value))))];
}

function others(data) {
  const n = data.rules.names.length - 1;
  return n > 0 ? `compared with ${plural(n, "other")}` : "no other to compare with";
}

function metadataOf(o) {
  if (!o.metadata.length) return o.judging ? null : h("p", { class: "muted" }, "No metadata. A judge's calls, cost and failures would be shown here.");
  const said = (row) => {
    if (row.values === undefined) return `${number(row.total)} in all; ${number(row.mean)} a group, from ${number(row.low)} to ${number(row.high)}`;
    if (row.values.length === 1 && !row.more) return row.values[0][0];
    return row.values.map(([value, n]) => `${value} (${plural(n, "group")})`).join(", ") + (row.more ? " …" : "");
  };
  return h("dl", { class: "facts" }, o.metadata.map((row) => h("div", {}, h("dt", {}, row.key),
    h("dd", {}, said(row), row.in < row.groups && h("small", {}, ` in ${plural(row.in, "group")}`)))));
}

function packingOf(data) {
  const { text_limit: limit, asked, cut_texts: cut } = data.packing;
  if (!data.overview.with_texts) return h("p", { class: "muted" }, "The records hold no texts: groups show numbers and reasons.");
  if (!cut) return h("p", { class: "muted" }, "All texts are whole.");
  const why = limit < asked ? `, less than the ${count(asked)} asked for, to keep the file small` : "";
  return h("p", { class: "muted" }, limit ? `${plural(cut, "text")} cut to ${count(limit)} characters${why}.` : "Texts were left out to keep the file small.");
}
