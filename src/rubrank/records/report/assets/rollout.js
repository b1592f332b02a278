// One rollout: why it got its reward, what it says, and every verdict on it.

/** A text as it is; [beginning, length] where it was cut. */
function textBlock(text, className) {
  if (typeof text === "string") return h("pre", { class: className }, text || "(empty)");
  const rest = text[1] - [...text[0]].length;
  return h("pre", { class: className }, text[0], h("span", { class: "cut" }, ` … ${count(rest)} more characters left out of this report`));
}

const lengthOf = (text) => (typeof text === "string" ? [...text].length : text[1]);

function rolloutView(group, i) {
  const thought = group.thoughts?.[i], answer = group.responses?.[i];
  return h("div", { class: "rollout", id: "rollout" },
    h("h4", {}, `Rollout ${i}`), explanation(group, i),
    answer !== undefined && h("section", { class: "text", "aria-label": "Response" },
      thought !== undefined && lengthOf(thought) > 0 && h("details", {}, h("summary", {}, `Reasoning, ${count(lengthOf(thought))} characters`), textBlock(thought, "said thought")),
      textBlock(answer, "said")),
    verdicts(group, i));
}

function explanation(group, i) {
  const [head, ...lines] = explainRollout(group, i).split("\n");
  return h("div", { class: "why" }, h("p", { class: "headline" }, head), lines.map((line) => h("p", {}, marked(line.trim()))));
}

/** The name in front of the colon stands out, and what was added, too. */
function marked(line) {
  const at = line.indexOf(": "), arrow = line.lastIndexOf(" → ");
  const body = arrow > at ? line.slice(at, arrow) : line.slice(at);
  return [h("b", {}, line.slice(0, at)), body, arrow > at && h("span", { class: line[arrow + 3] === "-" ? "added minus" : "added" }, line.slice(arrow + 3))];
}

function verdicts(group, i) {
  const rows = group.criteria.map((criterion, k) => {
    const score = group.scores[i][k], utility = k < group.K && group.utilities ? group.utilities[i][k] : null;
    const layer = { global_quality: "hard gate", low_quality: "soft gate" }[criterion.layer];
    return h("tr", {}, h("th", { scope: "row" }, criterion.name, h("small", {}, ` ${layer || criterion.by}`)),
      h("td", { class: score === null ? "number muted" : "number" }, score === null ? (isKnown(group, i, k) ? "compared" : "missing") : general(score)),
      h("td", { class: "number" }, k < group.K ? signed(utility) : ""),
      h("td", { class: "reason" }, group.reasons?.[i][k] || ""));
  });
  const head = ["Criterion", "Score", "Utility", "Reason"].map((title, at) => h("th", { scope: "col", class: at === 1 || at === 2 ? "number" : null }, title));
  return h("details", { open: true }, h("summary", {}, "Scores and reasons"),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Scores and reasons" }, h("table", { class: "verdicts" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows))));
}
