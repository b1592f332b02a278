// The group that is open: drawn by the parts that the report has too, with the rule to choose, the same prompt elsewhere, and files to save.

import { writeAddress } from "./address.js";
import { get } from "./api.js";
import { sideBySide } from "./diff.js";
import { chip, choice, h, replaceChildren, scrolled } from "./dom.js";
import { csvOf, download } from "./exporting.js";
import { GroupView } from "./group.js";
import { stateChips } from "./list.js";
import { number, plural } from "./numbers.js";
import { unfold } from "./words.js";

export class Detail {
  constructor(article, app) {
    this.article = article;
    this.app = app;
    this.view = null;
    this.shown = "";
  }

  /** Open a group; the latest choice wins, however long its answer takes. */
  async show(g, rollout, rule) {
    const { address, run } = this.app, key = JSON.stringify([address.run, run.epoch, g, rule, address.query]);
    if (this.shown === key) {
      if (rollout !== undefined && this.view && this.view.chosen !== rollout && this.view.group.reward[rollout] !== undefined) this.view.choose(rollout);
      return;
    }
    this.shown = key;
    this.article.setAttribute("aria-busy", "true");
    let data;
    try {
      data = await get("group", { run: address.run, g, rule });
    } catch (error) {
      if (this.shown === key) replaceChildren(this.article, h("p", { class: "note" }, error.message), rule && this.ruleBar({ rule, written: rule }, g));
      this.view = null;
      return;
    } finally {
      if (this.shown === key) this.article.removeAttribute("aria-busy");
    }
    if (this.shown !== key) return;
    this.draw(data, g, rollout);
  }

  draw(data, g, rollout) {
    const { app } = this, group = unfold(data.raw, data.id, data.noSignal, data.tables), link = (i) => writeAddress({ ...app.address, view: "groups", group: g, rollout: i });
    this.view = new GroupView(group, {
      rule: data.rule, rollout, query: app.address.query, chips: this.chips(data, group), linkTo: link, onRollout: (i) => app.navigate({ group: g, rollout: i }, true),
      before: this.ruleBar(data, g), after: [sameView(g, app), metadataView(data.metadata), saveView(data, group)],
    });
    replaceChildren(this.article, this.view.nodes());
    this.article.dataset.group = g;
    this.article.dataset.rule = data.rule;
  }

  chips(data, group) {
    return h("p", { class: "chips" }, data.step !== null && chip(`step ${data.step}`), chip(plural(group.G, "rollout")), chip(data.rule), data.replayed && chip("replayed", "info", `Recorded under ${data.written}`),
      data.noSignal && chip("no signal", "warn"), stateChips(data, true), data.flags.filter((flag) => flag !== "no signal").map((flag) => chip(flag, "plain")));
  }

  /** The rule can be switched in place: the scores of the group are fused anew. */
  ruleBar(data, g) {
    const { app } = this, others = app.rules.filter((rule) => rule !== data.written);
    const note = data.replayed && h("p", { class: "muted" }, `Replayed now from the scores of this group alone${data.adjusted ? "; attributes are not taken out" : ""}. Recorded under ${data.written}.`);
    return h("div", { class: "rule-bar" }, choice("Rule", [["", `${data.written} (as recorded)`], ...others.map((rule) => [rule, rule])], data.replayed || data.rule !== data.written ? data.rule : "",
      (rule) => app.navigate({ group: g, rule: rule || undefined }, true)), note);
  }
}

/** The same prompt at other steps and in other runs: means of criteria, and the best responses side by side. */
function sameView(g, app) {
  const body = h("div", {}, h("p", { class: "muted" }, "Looking …"));
  const load = async () => {
    const { found } = await get("same", { run: app.address.run, g });
    const mine = found.find((one) => one.run === app.address.run && one.g === g);
    if (found.length < 2 || !mine) return replaceChildren(body, h("p", { class: "muted" }, "Nowhere else, in what is read so far."));
    return replaceChildren(body, sameTable(found, mine, app), besideView(found, mine));
  };
  return h("details", { class: "same", ontoggle: (event) => { if (event.target.open) load().catch(app.fail); } }, h("summary", {}, "The same prompt at other steps and in other runs"), body);
}

function sameTable(found, mine, app) {
  const names = [...new Set(found.flatMap((one) => Object.keys(one.means)))];
  const rows = found.map((one) => h("tr", { class: one === mine ? "chosen" : null },
    h("th", { scope: "row" }, h("a", { href: writeAddress({ view: "groups", run: one.run, group: one.g }) }, one.name)), h("td", { class: "number" }, one.step ?? "–"), h("td", {}, one.rule),
    names.map((name) => h("td", { class: "number" }, number(one.means[name] ?? null)))));
  const head = ["Run", "Step", "Rule", ...names].map((title, i) => h("th", { scope: "col", class: i === 1 || i > 2 ? "number" : null }, title));
  return scrolled("The same prompt elsewhere", h("table", { class: "verdicts" }, h("caption", { class: "quiet-caption" }, "Mean score of each criterion where the same was asked"), h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)));
}

function besideView(found, mine) {
  const others = found.filter((one) => one !== mine && one.answer !== null);
  if (mine.answer === null || !others.length) return null;
  const place = h("div", {}), title = (one) => `${one.name}${one.step === null ? "" : `, step ${one.step}`}: best, rollout ${one.best}`;
  const draw = (i) => (i === "" ? replaceChildren(place) : replaceChildren(place, sideBySide(mine.answer, others[Number(i)].answer, [title(mine), title(others[Number(i)])])));
  return [choice("Best response beside that of", [["", "none"], ...others.map((one, i) => [String(i), title(one)])], "", draw), place];
}

function metadataView(metadata) {
  if (!Object.keys(metadata).length) return null;
  return h("details", {}, h("summary", {}, "Metadata"), h("pre", { class: "said given" }, JSON.stringify(metadata, null, 2)));
}

function saveView(data, group) {
  const name = `group-${data.id.replace(/[^\p{L}\p{N}._-]+/gu, "-").slice(0, 60)}`;
  const rows = () => [
    ["rollout", "reward", "ranking", ...group.criteria.map((c) => c.name), ...group.criteria.slice(0, group.K).map((c) => `utility: ${c.name}`)],
    ...group.reward.map((reward, i) => [i, reward, group.ranking[i], ...group.scores[i], ...(group.utilities ? group.utilities[i] : [])]),
  ];
  return h("p", { class: "save-group muted" }, "Save this group: ",
    h("button", { type: "button", class: "tiny", onclick: () => download(`${name}.csv`, "text/csv", csvOf(rows())) }, "CSV"),
    h("button", { type: "button", class: "tiny", onclick: () => download(`${name}.json`, "application/json", JSON.stringify({ rule: data.rule, ...group, observed: Object.fromEntries(group.observed) }, null, 1)) }, "JSON"));
}
