// The figures of a run: what every criterion did, where criteria conflict, length and form, gates, rules, benchmarks.

import { bars, lineChart, meter, whiskers } from "./charts.js";
import { add, choice, h, replaceChildren, tile } from "./dom.js";
import { count, isNumber, number, percent, plural, signed } from "./numbers.js";
import { heatTable, sortableTable } from "./tables.js";

/** data: what rubrank/viewer/summary makes; showGroups(filter): open the list of groups. */
export function drawSummary(section, data, showGroups) {
  const parts = [
    data.findings?.length > 0 && ["What to change", (part) => drawFindings(part, data.findings)],
    ["Overview", (part) => drawOverview(part, data)],
    ["Criteria", (part) => drawCriteria(part, data, showGroups)],
    ["Conflicts between criteria", (part) => drawConflicts(part, { ...data.conflicts, all: data.overview.groups })],
    ["Length and form", (part) => drawAttributes(part, data.attributes)],
    ["Gates", (part) => drawGates(part, data.gates, showGroups)],
    ["Rules compared", (part) => drawRules(part, data.rules, showGroups)],
    data.evaluation?.rows.length > 0 && ["Benchmarks", (part) => drawEvaluation(part, data.evaluation)],
  ].filter(Boolean);
  const { sampled } = data;
  replaceChildren(section,
    sampled && sampled.groups < sampled.of && h("p", { class: "muted" }, `Figures of ${count(sampled.groups)} groups, evenly chosen from ${count(sampled.of)}. \`rubrank report\` reads all of them.`),
    parts.map(([title, draw]) => {
      const part = h("section", { class: "part", "aria-label": title }, h("h2", {}, title));
      draw(part);
      return part;
    }));
}

/** Up to three sentences, most important first, each with the action that it suggests. */
function drawFindings(section, findings) {
  add(section, h("ol", { class: "findings" }, findings.map((finding) =>
    h("li", {}, h("strong", {}, finding.sentence), " ", finding.action))));
}

function drawOverview(section, data) {
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
    o.judging && judgesTile(o.judging),
  ];
  add(section, h("dl", { class: "tiles" }, tiles),
    h("div", { class: "pair" },
      h("div", { class: "card" }, h("h3", {}, "Rewards within groups"), bars(o.rewards, "Distribution of reward", true),
        h("p", { class: "muted" }, "A reward is relative to its group: over a run its mean says nothing about progress. Look at the criteria over the steps.")),
      h("div", { class: "card" }, h("h3", {}, "What the records say"), judgingOf(o.judging), metadataOf(o), textsNote(data))));
}

/** Criteria as replicates: how far they say the same, and the standard error of what they say together. */
function agreementTile(o) {
  if (!o.agreement_groups) return tile("Agreement", "–", "needs two that tell rollouts apart");
  return tile("Agreement", number(o.agreement, 2), `mean of ${plural(o.agreement_groups, "group")}; standard error of the sum ${number(o.error, 2)}`);
}

function judgesTile(judging) {
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

function textsNote(data) {
  if (!data.texts) return null;
  const { limit, limit_asked: asked, cut } = data.texts;
  if (!data.overview.with_texts) return h("p", { class: "muted" }, "The records hold no texts: groups show numbers and reasons.");
  if (!cut) return h("p", { class: "muted" }, "All texts are whole.");
  const why = limit < asked ? `, less than the ${count(asked)} asked for, to keep the file small` : "";
  return h("p", { class: "muted" }, limit ? `${plural(cut, "text")} cut to ${count(limit)} characters${why}.` : "Texts were left out to keep the file small.");
}

function drawCriteria(section, data, showGroups) {
  const rows = data.criteria.rows;
  const most = Math.max(0.01, ...rows.map((row) => Math.max(row.nominal || 0, Math.abs(row.effective || 0))));
  const leftOut = data.criteria.left_out;
  const columns = [
    { title: "Criterion", key: (row) => row.name, cell: criterionName, class: "wide" },
    { title: "Scores", cell: (row) => (row.compared_groups === row.groups ? h("span", { class: "muted" }, "compared, not scored") : bars(row.distribution, `Scores of ${row.name}`)) },
    { title: "Mean", key: (row) => row.mean, cell: (row) => number(row.mean), class: "number" },
    { title: "Tells apart", key: (row) => row.decides, cell: (row) => meter(row.decides), hint: "Share of all pairs within groups that it tells apart: neither tied nor missing" },
    { title: "Has signal", key: (row) => row.signal, cell: (row) => meter(row.signal), hint: "Share of groups in which it tells rollouts apart" },
    { title: "Ties", key: (row) => row.ties, cell: (row) => percent(row.ties), class: "number", hint: "Share of the compared pairs that tie" },
    { title: "Missing", key: (row) => row.missing / row.rollouts, cell: (row) => (row.missing ? percent(row.missing / row.rollouts, 1) : "0"), class: "number" },
    { title: "Weight", key: (row) => row.effective, cell: (row) => weightBars(row, most), hint: "Nominal: share of the weights. Effective: share of the variance of what was added up" },
    { title: "With reward", key: (row) => row.with_reward, cell: (row) => signed(row.with_reward), class: "number", hint: "Kendall's τ-b with the ranking before the gate, mean over groups" },
  ];
  const how = data.criteria.effective_by === "parts" ? "each group's variance of the weighted sum" : "the variance of rewards within groups that scores explain";
  add(section,
    h("p", { class: "lead" }, "A criterion that ties all rollouts costs nothing and says nothing. Its effective weight is its share of ", how, ": it may differ much from the weight it was given."),
    sortableTable({ caption: "Criteria", columns, rows, detail: (row) => criterionDetail(row, showGroups) }),
    leftOut > 0 && h("p", { class: "muted" }, `${count(leftOut)} criteria that fewer groups ask for are not shown.`),
  );
}

function criterionName(row) {
  const layer = { quality: null, global_quality: "hard gate", low_quality: "soft gate", watch: "watched" }[row.layer];
  return [h("span", { class: "name" }, row.name), h("small", {}, row.decided_by, layer && ` · ${layer}`)];
}

function weightBars(row, most) {
  if (!isNumber(row.nominal)) return h("span", { class: "muted" }, "–");
  const at = (share) => `${(100 * Math.min(1, Math.abs(share || 0) / most)).toFixed(1)}%`;
  return h("div", { class: "weights" },
    h("span", { class: "nominal", "--at": at(row.nominal) }, h("i", {}), h("b", {}, percent(row.nominal)), h("small", {}, "nominal")),
    h("span", { class: (row.effective || 0) < 0 ? "effective minus" : "effective", "--at": at(row.effective) }, h("i", {}), h("b", {}, percent(row.effective)), h("small", {}, "effective")));
}

function criterionDetail(row, showGroups) {
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

function reasonList(reasons) {
  return h("ul", { class: "reasons" }, reasons.map(([text, n]) => h("li", {}, h("b", {}, count(n)), " ", text)));
}

function drawConflicts(section, { names, tau, groups, left_out: leftOut, all }) {
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

function drawAttributes(section, { gamma, correlation }) {
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

function gammas({ attributes, criteria, points, taken, shares }) {
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
    shares.length > 0 && h("p", {}, `Control takes out ${shares.map(([criterion, share]) => `${percent(share)} of ${criterion}`).join(", ")} (of its variance within groups). If these differences are quality, control is wrong.`),
    choice("On", criteria.map((_, k) => [String(k), name(k)]), "0", (k) => draw(Number(k))), body);
}

function drawGates(section, gates, showGroups) {
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

function drawRules(section, rules, showGroups) {
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

/** false where no evaluation was given: the section stays hidden. */
function drawEvaluation(section, evaluation) {
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
