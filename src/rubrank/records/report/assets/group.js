// One group: prompt, rollouts from best to worst, who beats whom, attributes, other rules.

function groupView(group, store, g) {
  const chosen = h("div", {}), order = group.reward.map((_, i) => i).sort((a, b) => group.reward[b] - group.reward[a] || a - b);
  const table = rolloutTable(group, order, (i) => replaceChildren(chosen, rolloutView(group, i)));
  if (order.length) replaceChildren(chosen, rolloutView(group, order[0]));
  return [
    h("h3", { class: "group-name", tabindex: "-1" }, group.id), chips(group, store, g), promptView(group.prompt),
    table, chosen,
    h("h4", {}, "Who beats whom"), ...matrices(group),
    attributeView(group), othersView(group, store.tables.rules[store.columns.rule[g]]),
  ];
}

function chips(group, store, g) {
  const c = store.columns;
  const gate = c.stopped[g] > 0 ? chip(`${c.stopped[g]} stopped`, "bad") : store.has(g, BITS.softened) && chip("softened", "warn");
  return h("p", { class: "chips" }, c.step[g] !== null && chip(`step ${c.step[g]}`), chip(plural(group.G, "rollout")), chip(store.tables.rules[c.rule[g]]),
    group.noSignal && chip("no signal", "warn"), gate, store.has(g, BITS.disputed) && chip("rules disagree", "info"),
    c.flags[g].map((f) => store.tables.flags[f]).filter((flag) => flag !== "no signal").map((flag) => chip(flag, "plain")));
}

function promptView(prompt) {
  if (!prompt.length) return h("p", { class: "muted" }, "The record holds no prompt.");
  const length = sum(prompt.map(({ text }) => lengthOf(text)));
  return h("details", { class: "prompt", open: length < 900 }, h("summary", {}, `Prompt, ${plural(prompt.length, "message")}, ${count(length)} characters`),
    prompt.map(({ role, text }) => h("div", { class: "message" }, h("b", {}, role), textBlock(text, "said"))));
}

/** Scores and utilities of all rollouts; choosing a row shows the rollout below. */
function rolloutTable(group, order, choose) {
  const head = h("tr", {}, h("th", { scope: "col" }, "Rollout"), h("th", { scope: "col", class: "reward" }, "Reward"), group.gate && h("th", { scope: "col" }, "Gate"),
    group.weights.map((w, k) => h("th", { scope: "col", class: "number" }, group.criteria[k].name, h("small", {}, ` ×${general(w)}`))));
  const buttons = [];
  const rows = order.map((i) => {
    const button = h("button", { type: "button", "aria-pressed": "false", onclick: () => pick(i) }, `${i}`);
    buttons[i] = button;
    return h("tr", { onclick: (event) => { if (event.target !== button) pick(i); } }, h("th", { scope: "row" }, button),
      h("td", { class: "reward" }, meter(group.reward[i], fixed(group.reward[i]))),
      group.gate && h("td", {}, gateCell(group, i)), group.weights.map((_, k) => scoreCell(group, i, k)));
  });
  function pick(i) {
    mark(i);
    choose(i);
  }
  function mark(i) {
    buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(at === i)));
    rows.forEach((row, at) => row.classList.toggle("chosen", order[at] === i));
  }
  if (order.length) mark(order[0]);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Rollouts" },
    h("table", { class: "rollouts" }, h("caption", { class: "quiet-caption" }, "Rollouts from best to worst: score, and utility below it"), h("thead", {}, head), h("tbody", {}, rows)));
}

function gateCell(group, i) {
  const { passed, factor } = group.gate;
  if (!passed[i]) return chip(`stopped, was ${fixed(group.ranking[i])}`, "bad");
  return factor[i] < 1 ? chip(`× ${fixed(factor[i])}`, "warn") : h("span", { class: "muted" }, "passed");
}

function scoreCell(group, i, k) {
  const score = group.scores[i][k], utility = group.utilities ? group.utilities[i][k] : null;
  const most = group.utilities ? Math.max(1e-9, ...group.utilities.map((row) => Math.abs(row[k] || 0))) : 1;
  const heat = isNumber(utility) ? `${Math.round((34 * Math.abs(utility)) / most)}%` : "0%";
  return h("td", { class: `number ${utility < 0 ? "minus" : "plus"}`, "--heat": heat },
    score === null ? (isKnown(group, i, k) ? "≷" : "–") : number(score), isNumber(utility) && h("small", {}, signed(utility)));
}

function attributeView(group) {
  if (!group.names.length || !group.attributes) return null;
  const values = h("table", { class: "verdicts" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Rollout"), group.names.map((name) => h("th", { scope: "col", class: "number" }, name)))),
    h("tbody", {}, group.attributes.map((row, i) => h("tr", {}, h("th", { scope: "row" }, String(i)), row.map((x) => h("td", { class: "number" }, x === null ? "–" : general(x)))))));
  const most = group.gamma && Math.max(1e-9, ...group.gamma.flat().map((x) => Math.abs(x || 0)));
  return h("details", {}, h("summary", {}, `Attributes: ${group.names.join(", ")}`),
    h("div", { class: "pair" }, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Attributes of the rollouts" }, values),
      group.gamma && heatTable({ caption: "γ by criterion", corner: "γ", rows: group.weights.map((_, k) => group.criteria[k].name), columns: group.names,
        cell: (k, d) => group.gamma[k][d] / most, format: (x) => signed(x * most),
        title: (k, d) => `${coefficient(group, k, d)}${group.taken ? `, ${signed(group.taken[k][d])} taken out` : ""}` })));
}

function othersView(group, rule) {
  if (!group.others.length) return null;
  const columns = [[rule, group.reward], ...group.others];
  const best = columns.map(([, rewards]) => Math.max(...rewards));
  const rows = group.reward.map((_, i) => h("tr", {}, h("th", { scope: "row" }, String(i)),
    columns.map(([, rewards], c) => h("td", { class: rewards[i] === best[c] ? "number best" : "number" }, number(rewards[i])))));
  return h("details", {}, h("summary", {}, `Under ${plural(group.others.length, "other rule")}`), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Rewards under other rules" },
    h("table", { class: "verdicts" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Rollout"), columns.map(([name]) => h("th", { scope: "col", class: "number" }, name)))), h("tbody", {}, rows))));
}
