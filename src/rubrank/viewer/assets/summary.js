// The figures of a run: what to look at first, then an overview, criteria, conflicts, length and form, gates and rules.

import { bars, lineChart, meter, whiskers } from "./charts.js";
import { add, choice, h, replaceChildren, tile } from "./dom.js";
import { count, fixed, isNumber, number, percent, plural, signed } from "./numbers.js";
import { heatTable, sortableTable } from "./tables.js";

const CONFLICT = -0.05; // τ below which two criteria pull against each other
const NEARLY_SAME = 0.8; // τ above which one of two criteria is enough
const LISTED_PAIRS = 5;
const NUMBERED_COLUMNS = 6; // of a matrix; more criteria have numbers instead of names as headings

/** data: what rubrank/viewer/summary.py makes; showGroups(filter): open the list of groups. */
export function drawSummary(section, data, showGroups) {
  const parts = [
    ["What to look at", (part) => drawFirstLook(part, data, showGroups)],
    ["Overview", (part) => drawOverview(part, data)],
    ["Criteria", (part) => drawCriteria(part, data, showGroups)],
    ["Conflicts between criteria", (part) => drawConflicts(part, data.conflicts, data.overview.groups)],
    ["Length and form", (part) => drawAttributes(part, data.attributes)],
    ["Gates", (part) => drawGates(part, data.gates, showGroups)],
    ["Rules compared", (part) => drawRules(part, data.rules, showGroups)],
  ];
  const sections = parts.map(([title, draw]) => {
    const part = h("section", { class: "part", "aria-label": title }, h("h2", {}, title));
    draw(part);
    return part;
  });
  const links = parts.map(([title], i) => {
    const show = () => sections[i].scrollIntoView({ block: "start" });
    return h("button", { type: "button", class: "plain-link", onclick: show }, title);
  });
  replaceChildren(section,
    samplingNote(data.sampled),
    h("div", { class: "contents", role: "group", "aria-label": "Parts of the summary" }, links),
    sections);
}

function samplingNote(sampled) {
  if (!sampled || sampled.groups >= sampled.of) return null;
  const text = `Figures of ${count(sampled.groups)} groups, evenly chosen from ${count(sampled.of)}. \`rubrank report\` reads all of them.`;
  return h("p", { class: "muted" }, text);
}

// -------------------------------------------------------------------------------------------------- what to look at

const FIRST_FINDINGS = 3;

/** The first findings with their actions, the others folded; then buttons that list the groups worth a look. */
function drawFirstLook(section, data, showGroups) {
  const findings = data.findings || [];
  const { overview, gates } = data;
  const looks = [
    [overview.no_signal, "group", "without signal", { state: "noSignal" }],
    [gates.stopped, "rollout", "stopped by a gate", { state: "stopped" }],
    [overview.missing, "score", "missing", { state: "missing" }],
    [overview.judging?.missing || 0, "answer", "of judges missing", { state: "judgesFailed" }],
  ].filter(([n]) => n > 0);
  const finding = ({ sentence, action }) => h("li", {}, h("strong", {}, sentence), " ", action);
  const look = ([n, noun, what, filter]) => {
    const open = () => showGroups(filter);
    return h("button", { type: "button", onclick: open }, `${plural(n, noun)} ${what}`);
  };
  const others = findings.slice(FIRST_FINDINGS);
  add(section,
    findings.length > 0
      ? h("ol", { class: "findings" }, findings.slice(0, FIRST_FINDINGS).map(finding))
      : h("p", { class: "muted" }, "Nothing stands out: no criterion is useless, redundant or tied to length."),
    others.length > 0 && h("details", {}, h("summary", {}, plural(others.length, "other finding")), h("ul", {}, others.map(finding))),
    looks.length > 0 && h("div", { class: "actions looks" }, h("span", { class: "muted" }, "Show the groups with"), looks.map(look)));
}

// --------------------------------------------------------------------------------------------------------- overview

function drawOverview(section, data) {
  const { overview } = data;
  add(section,
    h("dl", { class: "tiles" }, overviewTiles(data)),
    h("div", { class: "pair" },
      h("div", { class: "card" },
        h("h3", {}, "Rewards within groups"),
        bars(overview.rewards, "Distribution of reward", true),
        h("p", { class: "muted" }, "A reward is relative to its group, so the mean reward of a run says nothing about progress. Look at the criteria over the steps instead.")),
      h("div", { class: "card" },
        h("h3", {}, "What the records say"),
        judgingFacts(overview.judging),
        metadataFacts(overview),
        textsNote(data))));
}

function overviewTiles(data) {
  const { overview } = data;
  const sizes = Object.keys(overview.sizes);
  const size = sizes.length === 1 ? `${sizes[0]} each` : `${sizes[0]} to ${sizes[sizes.length - 1]} each`;
  const range = overview.steps > 1 ? `, ${overview.first_step} to ${overview.last_step}` : "";
  const steps = overview.steps ? `${plural(overview.steps, "step")}${range}` : "no steps recorded";
  const ranked = data.criteria.rows.filter((row) => row.layer === "quality").length;
  const { with_gate: hasGate, stopped } = overview;
  return [
    tile("Groups", count(overview.groups), steps),
    tile("Rollouts", count(overview.rollouts), size),
    tile("Criteria", count(overview.criteria), `${count(ranked)} rank the rollouts`),
    ruleTile(data),
    tile("Without signal", percent(overview.no_signal / overview.groups, 1), `${plural(overview.no_signal, "group")}: all rewards equal`),
    hasGate
      ? tile("Stopped by a gate", percent(stopped / overview.rollouts, 1), `${count(stopped)} of ${plural(overview.rollouts, "rollout")}`)
      : tile("Stopped by a gate", "–", "no gate recorded"),
    tile("Missing scores", percent(overview.missing / Math.max(1, overview.scores), 1), `${count(overview.missing)} of ${count(overview.scores)}`),
    agreementTile(overview),
    overview.judging && judgesTile(overview.judging),
  ];
}

function ruleTile(data) {
  const rules = Object.keys(data.overview.rules);
  if (rules.length > 1) return tile("Rules", count(rules.length), rules.join(", "));
  const others = data.rules.names.length - 1;
  return tile("Rule", rules[0], others > 0 ? `compared with ${plural(others, "other")}` : "no other to compare with");
}

/** How much the criteria agree, and the standard error of their weighted sum, with the criteria as replicates. */
function agreementTile({ agreement, agreement_groups: groups, error }) {
  if (!groups) return tile("Agreement", "–", "needs two criteria that tell rollouts apart");
  return tile("Agreement", number(agreement), `mean of ${plural(groups, "group")}; standard error of the sum ${number(error)}`);
}

function judgesTile({ asked, missing = 0, calls }) {
  if (!asked) return tile("Judges", count(calls || 0), "calls");
  return tile("Judges failed", percent(missing / asked, 1), `${count(missing)} of ${plural(asked, "answer")} missing`);
}

/** Calls, cost and failures of the judges, added up over the run. */
function judgingFacts(judging) {
  if (!judging) return null;
  const { asked, missing = 0, calls, hits, cost, input_tokens: read = 0, output_tokens: wrote = 0, failures } = judging;
  const failureCounts = Object.entries(failures || {}).map(([why, n]) => `${why} (${count(n)})`);
  const rows = [
    asked && ["Answers requested", `${count(asked)}, ${missing ? `${count(missing)} missing` : "none missing"}`],
    calls !== undefined && ["Calls", `${count(calls)}${hits ? `, and ${count(hits)} answered from the cache` : ""}`],
    read + wrote > 0 && ["Tokens", `${count(read)} read, ${count(wrote)} written`],
    cost !== undefined && ["Cost", number(cost)],
    failureCounts.length > 0 && ["Failures", failureCounts.join(", ")],
  ].filter(Boolean);
  return [h("h4", {}, "Judges"), factList(rows)];
}

/** rows: [name, value]. */
function factList(rows) {
  return h("dl", { class: "facts" }, rows.map(([key, value]) => h("div", {}, h("dt", {}, key), h("dd", {}, value))));
}

function metadataFacts({ metadata, judging }) {
  if (!metadata.length) {
    return judging ? null : h("p", { class: "muted" }, "No metadata. A judge's calls, cost and failures would be shown here.");
  }
  const rows = metadata.map((row) => {
    const isPartial = row.in < row.groups;
    return [row.key, [metadataText(row), isPartial && h("small", {}, ` in ${plural(row.in, "group")}`)].filter(Boolean)];
  });
  return factList(rows);
}

/** Numbers as sum, mean and range; texts as one value, or a few with their groups. */
function metadataText(row) {
  if (row.values === undefined) {
    return `${number(row.total)} in total; ${number(row.mean)} per group, from ${number(row.low)} to ${number(row.high)}`;
  }
  if (row.values.length === 1 && !row.more) return row.values[0][0];
  const listed = row.values.map(([value, n]) => `${value} (${plural(n, "group")})`).join(", ");
  return row.more ? `${listed} …` : listed;
}

function textsNote(data) {
  if (!data.texts) return null;
  const { limit, limit_asked: asked, cut } = data.texts;
  let note = "All texts are complete.";
  if (!data.overview.with_texts) note = "The records hold no texts: groups show numbers and reasons.";
  else if (cut && !limit) note = "Texts were left out to keep the file small.";
  else if (cut) {
    const why = limit < asked ? `, fewer than the ${count(asked)} requested, to keep the file small` : "";
    note = `${plural(cut, "text")} cut to ${count(limit)} characters${why}.`;
  }
  return h("p", { class: "muted" }, note);
}

// --------------------------------------------------------------------------------------------------------- criteria

function drawCriteria(section, data, showGroups) {
  const { rows, left_out: leftOut, effective_by: effectiveBy } = data.criteria;
  const largest = Math.max(0.01, ...rows.map((row) => Math.max(row.nominal || 0, Math.abs(row.effective || 0))));
  const scores = (row) => (row.compared_groups === row.groups
    ? h("span", { class: "muted" }, "compared, not scored")
    : bars(row.distribution, `Scores of ${row.name}`));
  const columns = [
    { title: "Criterion", key: (row) => row.name, cell: criterionName, class: "wide" },
    { title: "Scores", cell: scores },
    { title: "Mean", key: (row) => row.mean, cell: (row) => number(row.mean), class: "number" },
    { title: "Tells apart", key: (row) => row.decides, cell: (row) => meter(row.decides), hint: "Share of all pairs within groups that it tells apart: neither tied nor missing" },
    { title: "Has signal", key: (row) => row.signal, cell: (row) => meter(row.signal), hint: "Share of groups in which it tells rollouts apart" },
    { title: "Ties", key: (row) => row.ties, cell: (row) => percent(row.ties), class: "number", hint: "Share of the compared pairs that tie" },
    { title: "Missing", key: (row) => row.missing / row.rollouts, cell: (row) => (row.missing ? percent(row.missing / row.rollouts, 1) : "0"), class: "number" },
    { title: "Weight", key: (row) => row.effective, cell: (row) => weightBars(row, largest), hint: "Nominal: share of the weights. Effective: share of the variance of the weighted sum" },
    { title: "With reward", key: (row) => row.with_reward, cell: (row) => signed(row.with_reward), class: "number", hint: "Kendall's τ-b with the ranking before the gate, mean over groups" },
  ];
  const share = effectiveBy === "parts"
    ? "each group's variance of the weighted sum"
    : "the variance of rewards within groups that scores explain";
  add(section,
    h("p", { class: "lead" }, `A criterion that ties all rollouts has no effect. Its effective weight is its share of ${share}, which may differ a lot from its nominal weight.`),
    sortableTable({ caption: "Criteria", columns, rows, detail: (row) => criterionDetail(row, showGroups) }),
    leftOut > 0 && h("p", { class: "muted" }, `${count(leftOut)} criteria of fewer groups are not shown.`));
}

function criterionName(row) {
  const layers = { global_quality: " · hard gate", low_quality: " · soft gate", watch: " · watched" };
  return [h("span", { class: "name" }, row.name), h("small", {}, row.decided_by, layers[row.layer])];
}

function weightBars(row, largest) {
  if (!isNumber(row.nominal)) return h("span", { class: "muted" }, "–");
  const width = (share) => `${(100 * Math.min(1, Math.abs(share || 0) / largest)).toFixed(1)}%`;
  const bar = (kind, name, share) => h("span", { class: kind, "--at": width(share) },
    h("i", {}),
    h("b", {}, percent(share)),
    h("small", {}, name));
  return h("div", { class: "weights" },
    bar("nominal", "nominal", row.nominal),
    bar((row.effective || 0) < 0 ? "effective minus" : "effective", "effective", row.effective));
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
    h("div", {},
      factList(facts),
      row.missing_reasons.length > 0 && [h("h4", {}, "Why scores are missing"), reasonList(row.missing_reasons)],
      h("button", { type: "button", onclick: () => showGroups({ criterion: row.name }) }, "Show its groups")));
}

function reasonList(reasons) {
  return h("ul", { class: "reasons" }, reasons.map(([text, n]) => h("li", {}, h("b", {}, count(n)), " ", text)));
}

// -------------------------------------------------------------------------------------------------------- conflicts

function drawConflicts(section, { names, tau, groups, left_out: leftOut }, allGroups) {
  if (names.length < 2) {
    add(section, h("p", { class: "muted" }, "There is only one criterion, so there are no conflicts."));
    return;
  }
  const body = h("div", {});
  const thresholds = [1, 2, 5, 10, 20, 50, 100, 200].filter((n) => n === 1 || n <= allGroups);
  const start = String(thresholds.filter((n) => n <= Math.max(5, allGroups / 100)).pop());
  const draw = (least) => replaceChildren(body, conflictView(names, tau, groups, Number(least)));
  const lead = "Kendall's τ-b within groups, averaged over the groups in which both criteria tell rollouts apart: −1 when one "
    + "always prefers what the other rejects, +1 when they rank alike, 0 when they are unrelated.";
  add(section,
    h("p", { class: "lead" }, lead),
    choice("Pairs seen in at least", thresholds.map((n) => [String(n), plural(n, "group")]), start, draw),
    body,
    leftOut > 0 && h("p", { class: "muted" }, `The ${names.length} criteria of the most groups; ${count(leftOut)} others are not shown.`));
  draw(start);
}

/** What fewer than `least` groups say is left out: one group proves no conflict. */
function conflictView(names, tau, groups, least) {
  const pairs = [];
  for (let i = 0; i < names.length; i += 1) {
    for (let j = i + 1; j < names.length; j += 1) {
      if (isNumber(tau[i][j]) && groups[i][j] >= least) pairs.push({ i, j, tau: tau[i][j], groups: groups[i][j] });
    }
  }
  pairs.sort((a, b) => a.tau - b.tau);
  const conflicts = pairs.filter((pair) => pair.tau < CONFLICT);
  const copies = pairs.filter((pair) => pair.tau > NEARLY_SAME).reverse();
  const nothing = pairs.length ? "No pair does." : `No pair is seen in ${plural(least, "group")} or more.`;
  const sentence = (pair) => h("li", {},
    h("b", {}, signed(pair.tau)),
    ` ${names[pair.i]} and ${names[pair.j]}, in ${plural(pair.groups, "group")}`);
  const card = (title, listed) => h("div", { class: "card" },
    h("h3", {}, title),
    listed.length
      ? h("ul", { class: "reasons" }, listed.slice(0, LISTED_PAIRS).map(sentence))
      : h("p", { class: "muted" }, nothing));
  // The matrix has only criteria of such a pair: a criterion that conflicts with none is a row of dashes.
  const involved = names.map((_, i) => i).filter((i) => [...conflicts, ...copies].some((pair) => pair.i === i || pair.j === i));
  const everything = names.map((_, i) => i).filter((i) => pairs.some((pair) => pair.i === i || pair.j === i));
  const matrix = (shown) => tauMatrix(names, tau, groups, least, shown);
  const whole = h("details", {}, h("summary", {}, `All ${everything.length} criteria that can be compared`));
  whole.addEventListener("toggle", () => {
    if (whole.open && whole.children.length === 1) whole.append(matrix(everything));
  });
  return [
    h("div", { class: "pair" }, card("Often disagree", conflicts), card("Nearly always agree", copies)),
    involved.length > 1 && matrix(involved),
    everything.length > Math.max(1, involved.length) && whole,
  ];
}

function tauMatrix(names, tau, groups, least, shown) {
  const isNumbered = shown.length > NUMBERED_COLUMNS;
  const describe = (a, b) => {
    const [i, j] = [shown[a], shown[b]];
    if (i === j) return names[i];
    return `${names[i]} and ${names[j]}: ${signed(tau[i][j])} in ${plural(groups[i][j], "group")}`;
  };
  return heatTable({
    caption: "Kendall's τ between criteria",
    rows: shown.map((i, at) => (isNumbered ? `${at + 1} ${names[i]}` : names[i])),
    columns: shown.map((i, at) => (isNumbered ? String(at + 1) : names[i])),
    columnTitles: shown.map((i) => names[i]),
    cell: (a, b) => (a === b || groups[shown[a]][shown[b]] < least ? null : tau[shown[a]][shown[b]]),
    title: describe,
  });
}

// -------------------------------------------------------------------------------------------------- length and form

function drawAttributes(section, { gamma, correlation }) {
  if (!correlation.attributes.length && !gamma.attributes.length) {
    add(section, h("p", { class: "muted" }, "No attributes were recorded, and there are no texts to measure."));
    return;
  }
  add(section,
    correlation.attributes.length > 0 && correlationCard(correlation),
    gamma.attributes.length > 0 && gammaCard(gamma));
}

function correlationCard({ attributes, rules, r, half, groups }) {
  const rows = attributes
    .map((attribute, d) => {
      const source = attribute.measured ? "" : ", recorded";
      const note = `mean ${number(attribute.mean)}${source}, differs in ${plural(groups[d][0], "group")}`;
      return { name: attribute.name, value: r[d][0], half: half[d][0], note };
    })
    .filter((row) => isNumber(row.value));
  const largest = Math.max(0.25, ...rows.map((row) => Math.min(1, Math.abs(row.value) + (row.half || 0))));
  const describe = (d, i) => {
    const interval = isNumber(half[d][i]) ? ` ± ${half[d][i].toFixed(2)}` : "";
    return `${attributes[d].name}, ${rules[i]}: ${signed(r[d][i])}${interval}, ${plural(groups[d][i], "group")}`;
  };
  const underOthers = rules.length > 1 && h("details", {},
    h("summary", {}, `The same under ${plural(rules.length - 1, "other reward")}`),
    heatTable({
      caption: "Correlation of rewards with attributes",
      rows: attributes.map((attribute) => attribute.name),
      columns: rules,
      cell: (d, i) => r[d][i],
      title: describe,
    }));
  return h("div", { class: "card" },
    h("h3", {}, `Does the reward of ${rules[0]} follow length and form?`),
    h("p", { class: "lead" }, "Spearman's correlation within groups, averaged over groups, with its 95% interval. 0: no relation. To the right: responses with more of it get higher rewards."),
    rows.length ? whiskers(rows, largest) : h("p", { class: "muted" }, "Nothing differs within any group."),
    underOthers);
}

function gammaCard({ attributes, criteria, points, taken, shares }) {
  const body = h("div", {});
  const takenText = (d) => (isNumber(taken[d]) ? `${signed(taken[d])} taken out` : "");
  const draw = (k) => {
    const curves = attributes
      .map((attribute, d) => ({ name: attribute, d, points: points[`${d}|${k}`] || [] }))
      .filter((curve) => curve.points.length);
    replaceChildren(body, gammaChart(curves, takenText));
  };
  draw(0);
  const listedShares = shares.map(([criterion, share]) => `${percent(share)} of ${criterion}`).join(", ");
  const lead = "γ > 0: responses with more of the attribute win on the criterion more often than their utilities explain. The "
    + "95% interval is that of the pooled estimate, or that of the mean over groups if each group was fitted by itself. "
    + "Criteria that tie all rollouts of a group, or that a program decided, do not count there.";
  const options = criteria.map((name, k) => [String(k), name || "all criteria, by weight"]);
  return h("div", { class: "card" },
    h("h3", {}, "Attributes of winning responses: γ"),
    h("p", { class: "lead" }, lead),
    shares.length > 0 && h("p", {}, `Control takes out ${listedShares} (of its variance within groups). If longer or formatted responses are really better here, do not control them.`),
    choice("On", options, "0", (k) => draw(Number(k))),
    body);
}

/** Curves over the steps; of a single step, one row for each attribute. */
function gammaChart(curves, takenText) {
  if (!curves.length) return h("p", { class: "muted" }, "This criterion does not tell rollouts apart in any group.");
  if (curves.some((curve) => curve.points.length > 1)) {
    const charts = curves.map((curve) => lineChart(curve.name, [curve], { zero: true, note: takenText(curve.d) }));
    return h("div", { class: "plots" }, charts);
  }
  const rows = curves.map(({ name, d, points: [[, mean, half, n]] }) => (
    { name, value: mean, half, note: `${plural(n, "group")}, ${takenText(d)}` }));
  const largest = Math.max(0.2, ...rows.map((row) => Math.abs(row.value) + (row.half || 0)));
  const isIntervalMissing = rows.some((row) => row.half === null);
  const note = isIntervalMissing && "Without an interval: fewer than two groups, or fitted group by group in fewer than five.";
  return whiskers(rows, 1.1 * largest, note);
}

// -------------------------------------------------------------------------------------------------- gates and rules

function drawGates(section, gates, showGroups) {
  if (!gates.rollouts) {
    add(section, h("p", { class: "muted" }, "No gate was recorded."));
    return;
  }
  const rateOf = (row) => row.hit / row.asked;
  const rows = gates.criteria.slice().sort((a, b) => rateOf(b) - rateOf(a));
  const largest = Math.max(...rows.map(rateOf), 1e-9);
  const share = (n) => percent(n / gates.rollouts, 1);
  add(section,
    h("dl", { class: "tiles" },
      tile("Stopped", share(gates.stopped), `${plural(gates.stopped, "rollout")}: reward 0`),
      tile("Softened", share(gates.softened), `${plural(gates.softened, "rollout")}: reward multiplied`),
      tile("Groups affected", percent(gates.touched / gates.groups, 1), `${count(gates.touched)} of ${count(gates.groups)}`),
      tile("Reward lost", fixed(gates.lost, 3), "mean over rollouts")),
    h("div", { class: "actions" },
      h("button", { type: "button", onclick: () => showGroups({ state: "gated" }) }, "Show the groups affected")),
    h("ul", { class: "gates" }, rows.map((row) => gateRow(row, rateOf(row), largest))));
}

function gateRow(row, rate, largest) {
  const bar = h("span", { class: row.hard ? "rate bad" : "rate warn", "--at": `${(100 * rate) / largest}%` },
    h("i", { "aria-hidden": "true" }),
    h("b", {}, percent(rate, 1)),
    ` ${row.hard ? "stopped" : "lowered"}`);
  return h("li", {},
    h("span", { class: "name" }, row.name, h("small", {}, row.hard ? " hard" : " soft")),
    bar,
    row.missing > 0 && h("small", { class: "muted" }, `${percent(row.missing / row.asked, 0)} not decided`),
    row.reasons.length > 0 && h("details", {}, h("summary", {}, "Reasons"), reasonList(row.reasons)));
}

function drawRules(section, rules, showGroups) {
  if (rules.names.length < 2) {
    add(section, h("p", { class: "muted" }, "One rule only. `rubrank replay` computes others on the same rollouts."));
    return;
  }
  if (!rules.groups) {
    add(section, h("p", { class: "muted" }, "No group has rewards under all rules."));
    return;
  }
  const { names } = rules;
  const matrix = (caption, measure, format) => h("div", { class: "card" },
    h("h3", {}, caption),
    heatTable({
      caption,
      rows: names,
      columns: names,
      cell: (i, j) => (i === j ? null : measure[i][j]),
      format,
      title: (i, j) => `${names[i]} and ${names[j]}: ${format(measure[i][j])}`,
    }));
  const columns = [
    { title: "Rule", key: (row) => row.name, cell: (row) => row.name, class: "wide" },
    { title: "Mean reward", key: (row) => row.mean, cell: (row) => number(row.mean), class: "number" },
    { title: "Without signal", key: (row) => row.noSignal, cell: (row) => percent(row.noSignal, 1), class: "number" },
    { title: "Same winner as the first", key: (row) => row.winner, cell: (row) => meter(row.winner) },
  ];
  const rows = names.map((name, i) => ({ name, mean: rules.mean[i], noSignal: rules.no_signal[i], winner: rules.winner[0][i] }));
  const lead = `${plural(rules.groups, "group")} with rewards under ${names.length} rules. Agreement is about the order within a group; `
    + "rewards of different rules are on different scales.";
  const wholePercent = (share) => percent(share);
  add(section,
    h("p", { class: "lead" }, lead),
    sortableTable({ caption: "Rules", columns, rows }),
    h("div", { class: "actions" },
      h("button", { type: "button", onclick: () => showGroups({ state: "rulesDisagree" }) }, "Show groups in which rules disagree")),
    h("div", { class: "pair" },
      matrix("Kendall's τ between rules", rules.kendall, signed),
      matrix("Same winner", rules.winner, wholePercent),
      matrix("Same side of the group's mean", rules.signs, wholePercent)));
}
