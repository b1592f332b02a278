// The groups of a run: filters and search, a list of which only the rows in view exist, and the group that is open.

import { FILTERS, writeAddress } from "./address.js";
import { sideBySide } from "./diff.js";
import { add, choice, h, replaceChildren, scrolled } from "./dom.js";
import { SCORE_CHOICES, SORT_CHOICES, STATE_CHOICES, filterGroups, sortGroups } from "./filters.js";
import { GroupView } from "./group.js";
import { GroupList } from "./list.js";
import { count, number, percent, plural } from "./numbers.js";
import { csvOf, download } from "./save.js";

const TYPING_PAUSE = 200; // milliseconds after the last key before a search begins

export class GroupBrowser {
  constructor(section, app) {
    this.app = app;
    this.found = []; // numbers of the groups in the list
    this.hits = null; // groups that hold the searched words; null without a search
    this.scores = null; // of the chosen criterion
    this.shown = ""; // what the open group was drawn for
    this.filterKey = "";
    this.view = null;
    this.status = h("output", { class: "status", "aria-live": "polite" });
    this.save = h("span", { class: "save-list" });
    this.list = new GroupList({ facts: (place) => this.factsAt(place), choose: (place, focus) => this.choose(place, focus), manySteps: () => app.run.steps.length > 1 });
    this.controls = h("form", { class: "controls", role: "search", onsubmit: (event) => event.preventDefault() });
    this.article = h("article", { class: "group", "aria-label": "Group" });
    add(section, this.controls, h("div", { class: "browser" },
      h("div", { class: "side" }, h("div", { class: "status-line" }, this.status, this.save), this.list.element), h("div", { class: "main" }, this.steering(), this.article)));
  }

  get rows() {
    return this.app.rows;
  }

  filter() {
    return Object.fromEntries(FILTERS.map((key) => [key, this.app.address[key] ?? ""]));
  }

  /** Draw what the address says. */
  async show() {
    const { address, run } = this.app, filter = this.filter();
    this.drawControls();
    const filterKey = JSON.stringify([address.run, run.epoch, { ...filter, sort: "" }]);
    if (filterKey !== this.filterKey) {
      this.filterKey = filterKey;
      this.list.element.scrollTop = 0;
      this.scores = filter.criterion && filter.score && filter.score !== "any" ? await this.app.data.scores(address.run, filter.criterion) : null;
      this.hits = null;
      if (filter.query.trim()) this.search(filter.query.trim(), filterKey);
    }
    this.drawList();
    const g = address.group ?? this.found[0];
    if (g !== undefined) await this.open(g, address.rollout, address.rule || "");
  }

  /** Search the texts; the list grows while it goes on. */
  search(query, filterKey) {
    this.hits = new Set();
    const isCurrent = () => this.filterKey === filterKey;
    const report = (hits, done) => {
      this.hits = hits;
      this.drawList(done < 1 ? `searching ${percent(done)}` : "");
      const { group, rule } = this.app.address;
      if (group === undefined && this.found.length) this.open(this.found[0], undefined, rule || "").catch(this.app.fail);
    };
    this.app.data.search(this.app.address.run, query, isCurrent, report).catch(this.app.fail);
  }

  drawList(note = "") {
    const { rows } = this, { run, address } = this.app;
    this.found = sortGroups(rows, filterGroups(rows, this.filter(), this.scores, this.hits), address.sort || "file");
    const reading = rows.id.length < run.groups && `reading ${percent(rows.id.length / run.groups)}`;
    const notes = [note, reading].filter(Boolean).join(", ");
    this.status.textContent = `${count(this.found.length)} of ${plural(run.groups, "group")}${notes ? `, ${notes}` : ""}`;
    this.list.open = this.found.indexOf(address.group ?? this.found[0]);
    this.list.show(this.found.length);
    this.drawSave();
  }

  factsAt(place) {
    const { rows } = this, g = this.found[place];
    return { g, id: rows.id[g], title: rows.title[g], step: rows.step[g], size: rows.size[g], spread: rows.spread[g], states: rows.states[g], stopped: rows.stopped[g] };
  }

  /** Open the group at a place of the list. */
  async choose(place, focus) {
    this.list.open = place;
    await this.app.navigate({ group: this.found[place], rollout: undefined }, true);
    const isNarrow = matchMedia("(max-width: 900px)").matches;
    if (isNarrow && document.activeElement !== this.list.element) this.article.parentElement.scrollIntoView({ block: "start" });
    if (focus) this.article.querySelector(".group-name")?.focus({ preventScroll: true });
  }

  /** Show a group; the latest choice wins, however long its data take. */
  async open(g, rollout, rule) {
    const { app } = this, key = JSON.stringify([app.address.run, app.run.epoch, g, rule, app.address.query]);
    if (this.shown === key) {
      if (rollout !== undefined && this.view && this.view.chosen !== rollout && this.view.group.reward[rollout] !== undefined) this.view.choose(rollout);
      return;
    }
    this.shown = key;
    this.article.setAttribute("aria-busy", "true");
    let group;
    try {
      group = await app.data.group(app.address.run, g, rule);
    } catch (error) {
      this.view = null;
      if (this.shown === key) replaceChildren(this.article, h("p", { class: "note" }, error.message));
      return;
    } finally {
      if (this.shown === key) this.article.removeAttribute("aria-busy");
    }
    if (this.shown !== key) return;
    this.view = new GroupView(group, {
      rollout, query: app.address.query, linkTo: (i) => writeAddress({ ...app.address, view: "groups", group: g, rollout: i }),
      onRollout: (i) => app.navigate({ group: g, rollout: i }, true),
      before: app.data.isLive && ruleBar(app, group, g), after: [app.data.isLive && sameView(app, g), metadataView(group.metadata), saveView(group)],
    });
    replaceChildren(this.article, this.view.nodes());
    this.article.dataset.group = g;
    this.article.dataset.rule = group.rule;
    const place = this.found.indexOf(g);
    this.list.open = place;
    if (place >= 0) this.list.bringIntoView(place);
    this.list.draw();
  }

  /** The filters; one that has the focus keeps it. */
  drawControls() {
    const { app } = this, { run, address } = app;
    const drawnFor = JSON.stringify([address.run, run.criteria, run.steps.length, run.rules, this.filter()]);
    const focused = this.controls.contains(document.activeElement) ? document.activeElement : null;
    if (this.drawnFor === drawnFor || focused?.matches("input")) return;
    this.drawnFor = drawnFor;
    const label = focused?.closest("label")?.firstChild.textContent;
    const set = (key) => (value) => app.navigate({ [key]: value, group: undefined, rollout: undefined });
    const typed = (key) => {
      let timer = 0;
      return (event) => {
        clearTimeout(timer);
        timer = setTimeout(() => set(key)(event.target.value), TYPING_PAUSE);
      };
    };
    const named = (names) => names.map((name) => [String(name), String(name)]);
    const needsValue = ["low", "high"].includes(address.score);
    replaceChildren(this.controls,
      h("label", { class: "field grow" }, h("span", {}, "Search"), h("input", { type: "search", id: "query", placeholder: "name, prompt, response, tool call, reason", value: address.query || "", oninput: typed("query") })),
      choice("State", STATE_CHOICES, address.state || "", set("state")),
      choice("Criterion", [["", "any"], ...named(run.criteria)], address.criterion || "", set("criterion")),
      address.criterion && choice("Its score", SCORE_CHOICES, address.score || "any", set("score")),
      address.criterion && needsValue && h("label", { class: "field narrow" }, h("span", {}, "Value"), h("input", { type: "number", step: "any", value: address.value ?? "0", oninput: typed("value") })),
      run.steps.length > 1 && choice("Step", [["", "all"], ...named(run.steps)], address.step || "", set("step")),
      run.rules.length > 1 && choice("Rule", [["", "all"], ...named(run.rules)], address.rule_filter || "", set("rule_filter")),
      choice("Sort by", SORT_CHOICES, address.sort || "file", set("sort")),
      h("button", { type: "button", class: "quiet", onclick: () => app.navigate({ ...Object.fromEntries(FILTERS.map((key) => [key, undefined])), group: undefined, rollout: undefined }) }, "Clear"));
    if (label) [...this.controls.querySelectorAll("label")].find((field) => field.firstChild.textContent === label)?.lastChild.focus();
  }

  drawSave() {
    const { app } = this;
    if (!app.data.isLive || !this.found.length) return replaceChildren(this.save);
    const all = this.found.length === app.run.groups ? [] : this.found;
    const link = (format, text) => h("a", { class: "tiny-link", href: app.data.exportAddress(app.address.run, all, format), download: "" }, text);
    return replaceChildren(this.save, link("csv", "CSV"), link("jsonl", "JSON"));
  }

  steering() {
    const move = (by) => () => this.list.move(by, true);
    const toList = () => {
      this.list.element.scrollIntoView({ block: "center" });
      this.list.element.focus({ preventScroll: true });
    };
    return h("div", { class: "steer" }, h("button", { type: "button", class: "quiet back", onclick: toList }, "To the list"),
      h("button", { type: "button", class: "quiet", onclick: move(-1) }, "← Previous"), h("button", { type: "button", class: "quiet", onclick: move(1) }, "Next →"));
  }
}

/** The rule can be switched in place: the server fuses the scores of the group again. */
function ruleBar(app, group, g) {
  const others = app.rules.filter((rule) => rule !== group.recorded_rule);
  const choices = [["", `${group.recorded_rule} (as recorded)`], ...others.map((rule) => [rule, rule])];
  const note = group.is_replayed && h("p", { class: "muted" },
    `Fused again from the scores of this group alone${group.was_adjusted ? "; attributes are not taken out" : ""}. Recorded under ${group.recorded_rule}.`);
  return h("div", { class: "rule-bar" }, choice("Rule", choices, group.is_replayed ? group.rule : "", (rule) => app.navigate({ group: g, rule: rule || undefined }, true)), note);
}

/** The same prompt at other steps and in other runs: means of criteria, and the best responses side by side. */
function sameView(app, g) {
  const body = h("div", {}, h("p", { class: "muted" }, "Loading …"));
  const load = async () => {
    const { groups } = await app.data.same(app.address.run, g);
    const mine = groups.find((other) => other.run === app.address.run && other.g === g);
    if (groups.length < 2 || !mine) return replaceChildren(body, h("p", { class: "muted" }, "Nowhere else, in what is read so far."));
    return replaceChildren(body, sameTable(groups, mine), bestBeside(groups, mine));
  };
  return h("details", { class: "same", ontoggle: (event) => { if (event.target.open) load().catch(app.fail); } }, h("summary", {}, "The same prompt at other steps and in other runs"), body);
}

function sameTable(groups, mine) {
  const names = [...new Set(groups.flatMap((group) => Object.keys(group.means)))];
  const head = ["Run", "Step", "Rule", ...names].map((title, i) => h("th", { scope: "col", class: i === 1 || i > 2 ? "number" : null }, title));
  const rows = groups.map((group) => h("tr", { class: group === mine ? "chosen" : null },
    h("th", { scope: "row" }, h("a", { href: writeAddress({ view: "groups", run: group.run, group: group.g }) }, group.name)), h("td", { class: "number" }, group.step ?? "–"), h("td", {}, group.rule),
    names.map((name) => h("td", { class: "number" }, number(group.means[name] ?? null)))));
  return scrolled("The same prompt elsewhere", h("table", { class: "verdicts" }, h("caption", { class: "quiet-caption" }, "Mean score of each criterion where the same was asked"), h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)));
}

function bestBeside(groups, mine) {
  const others = groups.filter((group) => group !== mine && group.response !== null);
  if (mine.response === null || !others.length) return null;
  const place = h("div", {});
  const title = (group) => `${group.name}${group.step === null ? "" : `, step ${group.step}`}: best, rollout ${group.best}`;
  const draw = (i) => replaceChildren(place, i !== "" && sideBySide(mine.response, others[Number(i)].response, [title(mine), title(others[Number(i)])]));
  return [choice("Best response beside that of", [["", "none"], ...others.map((group, i) => [String(i), title(group)])], "", draw), place];
}

function metadataView(metadata) {
  if (!metadata) return null;
  return h("details", {}, h("summary", {}, "Metadata"), h("pre", { class: "said given" }, JSON.stringify(metadata, null, 2)));
}

function saveView(group) {
  const name = `group-${group.id.replace(/[^\p{L}\p{N}._-]+/gu, "-").slice(0, 60)}`, ranked = group.criteria.slice(0, group.ranked);
  const rows = () => [
    ["rollout", "reward", "ranking", ...group.criteria.map((criterion) => criterion.name), ...ranked.map((criterion) => `utility: ${criterion.name}`)],
    ...group.reward.map((reward, i) => [i, reward, group.ranking[i], ...group.scores[i], ...(group.utilities ? group.utilities[i] : [])]),
  ];
  return h("p", { class: "save-group muted" }, "Save this group: ",
    h("button", { type: "button", class: "tiny", onclick: () => download(`${name}.csv`, "text/csv", csvOf(rows())) }, "CSV"),
    h("button", { type: "button", class: "tiny", onclick: () => download(`${name}.json`, "application/json", JSON.stringify(group, null, 1)) }, "JSON"));
}
