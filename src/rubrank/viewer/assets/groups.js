// The groups of a run in three panes: the list with its filters, the matrix of the open group, the text of one rollout.

import { FILTERS, readGroupChanges, writeAddress } from "./address.js";
import { sideBySide } from "./diff.js";
import { add, choice, h, replaceChildren, scrolled } from "./dom.js";
import { editView } from "./edit.js";
import { SCORE_CHOICES, SORT_CHOICES, STATE_CHOICES, filterGroups, sortGroups } from "./filters.js";
import { GroupView } from "./group.js";
import { GroupList } from "./list.js";
import { count, number, percent, plural } from "./numbers.js";
import { csvOf, download } from "./save.js";

const TYPING_PAUSE = 200; // milliseconds after the last key before a search begins
const PANES = [["list", "List"], ["matrix", "Matrix"], ["text", "Text"]];
const ONE_PANE = "(max-width: 900px)"; // as in style.css

export class GroupBrowser {
  constructor(section, app) {
    this.app = app;
    this.listed = []; // numbers of the groups in the list
    this.hits = null; // groups that hold the searched words; null without a search
    this.scores = null; // of the chosen criterion
    this.drawnKey = ""; // what the open group was drawn for
    this.filterKey = ""; // what the list was filtered for
    this.view = null; // the open group, a GroupView
    this.isEditing = false; // whether the form of changes is open
    this.status = h("output", { class: "status", "aria-live": "polite" });
    this.save = h("span", { class: "save-list" });
    this.list = new GroupList({
      facts: (place) => this.factsAt(place),
      choose: (place, focus) => this.choose(place, focus),
      manySteps: () => app.run.steps.length > 1,
    });
    this.controls = h("form", { class: "controls", role: "search", onsubmit: (event) => event.preventDefault() });
    this.article = h("article", { class: "group", "aria-label": "Group" });
    this.rolloutPane = h("section", { class: "pane text-pane", "aria-label": "Rollout", tabindex: "0" });
    this.paneButtons = h("div", { class: "pane-buttons", role: "group", "aria-label": "Panes" });
    this.element = h("div", { class: "browser" },
      h("section", { class: "pane list-pane", "aria-label": "List of groups" },
        this.controls,
        h("div", { class: "status-line" }, this.status, this.save),
        this.list.element),
      h("section", { class: "pane matrix-pane", "aria-label": "Matrix of the group", tabindex: "0" },
        this.steering(),
        this.article),
      this.rolloutPane);
    add(section, this.paneButtons, this.element);
  }

  get rows() {
    return this.app.rows;
  }

  filter() {
    return Object.fromEntries(FILTERS.map((key) => [key, this.app.address[key] ?? ""]));
  }

  /** Draw what the address says. */
  async show() {
    const { address, run } = this.app;
    const filter = this.filter();
    this.drawPanes();
    this.drawControls();
    const filterKey = JSON.stringify([address.run, run.epoch, { ...filter, sort: "" }]);
    if (filterKey !== this.filterKey) {
      this.filterKey = filterKey;
      this.list.element.scrollTop = 0;
      const needsScores = filter.criterion && filter.score && filter.score !== "any";
      this.scores = needsScores ? await this.app.data.scores(address.run, filter.criterion) : null;
      this.hits = null;
      if (filter.query.trim()) this.search(filter.query.trim(), filterKey);
    }
    this.drawList();
    const g = address.group ?? this.listed[0];
    if (g !== undefined) await this.open(g, address.rollout);
  }

  /** On a narrow screen one pane is shown at a time; a link to a rollout opens its text. */
  drawPanes() {
    const { address } = this.app;
    let pane = address.pane;
    if (!PANES.some(([name]) => name === pane)) {
      pane = "list";
      if (address.group !== undefined) pane = address.rollout === undefined ? "matrix" : "text";
    }
    this.element.dataset.pane = pane;
    replaceChildren(this.paneButtons, PANES.map(([name, title]) => h("button", {
      type: "button",
      "aria-pressed": String(name === pane),
      onclick: () => this.app.navigate({ pane: name }, true),
    }, title)));
  }

  /** Search the texts; the list grows while it goes on. */
  search(query, filterKey) {
    this.hits = new Set();
    const isCurrent = () => this.filterKey === filterKey;
    const report = (hits, done) => {
      this.hits = hits;
      this.drawList(done < 1 ? `searching ${percent(done)}` : "");
      const isChosen = this.app.address.group !== undefined;
      if (!isChosen && this.listed.length) this.open(this.listed[0]).catch(this.app.fail);
    };
    this.app.data.search(this.app.address.run, query, isCurrent, report).catch(this.app.fail);
  }

  drawList(note = "") {
    const { rows } = this;
    const { run, address } = this.app;
    const matching = filterGroups(rows, this.filter(), this.scores, this.hits);
    this.listed = sortGroups(rows, matching, address.sort || "file");
    const reading = rows.id.length < run.groups && `reading ${percent(rows.id.length / run.groups)}`;
    const notes = [note, reading].filter(Boolean).map((text) => `, ${text}`).join("");
    this.status.textContent = `${count(this.listed.length)} of ${plural(run.groups, "group")}${notes}`;
    this.list.open = this.listed.indexOf(address.group ?? this.listed[0]);
    this.list.show(this.listed.length);
    this.drawSave();
  }

  factsAt(place) {
    const { rows } = this;
    const g = this.listed[place];
    return {
      g,
      id: rows.id[g],
      title: rows.title[g],
      step: rows.step[g],
      size: rows.size[g],
      spread: rows.spread[g],
      states: rows.states[g],
      stopped: rows.stopped[g],
    };
  }

  /** Open the group at a place of the list. */
  async choose(place, focus) {
    this.list.open = place;
    // The arrow keys move through the list, which must then stay in view on a phone.
    const isMovingByKeys = document.activeElement === this.list.element && matchMedia(ONE_PANE).matches;
    const pane = isMovingByKeys ? "list" : undefined;
    await this.app.navigate({ group: this.listed[place], rollout: undefined, changes: undefined, pane }, true);
    if (focus) this.article.querySelector(".group-name")?.focus({ preventScroll: true });
  }

  /** Show a group; the latest choice wins, however long its data take. */
  async open(g, rollout) {
    const { app } = this;
    const changes = readGroupChanges(app.address);
    const key = JSON.stringify([app.address.run, app.run.epoch, g, changes, app.address.query]);
    if (this.drawnKey === key) {
      const isOther = rollout !== undefined && this.view && this.view.chosen !== rollout;
      if (isOther && this.view.group.reward[rollout] !== undefined) this.view.choose(rollout);
      return;
    }
    this.drawnKey = key;
    this.article.setAttribute("aria-busy", "true");
    let group;
    try {
      group = await app.data.group(app.address.run, g, changes);
    } catch (error) {
      if (this.drawnKey === key) this.showProblem(error);
      return;
    } finally {
      if (this.drawnKey === key) this.article.removeAttribute("aria-busy");
    }
    if (this.drawnKey === key) this.drawGroup(group, g, rollout, changes);
  }

  /** A group that cannot be shown; changes can be taken back. */
  showProblem(error) {
    this.view = null;
    const undo = () => this.app.navigate({ rule: undefined, changes: undefined }, true);
    const isChanged = Object.keys(readGroupChanges(this.app.address)).length > 0;
    replaceChildren(this.article,
      h("p", { class: "note" }, error.message),
      isChanged && h("button", { type: "button", onclick: undo }, "As recorded"));
    replaceChildren(this.rolloutPane);
  }

  drawGroup(group, g, rollout, changes) {
    const { app } = this;
    const focusKey = this.article.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const edit = editView({
      group,
      changes,
      rules: app.rules,
      isLive: app.data.isLive,
      apply: (keys) => app.navigate({ group: g, ...keys }, true),
      isOpen: this.isEditing,
      onToggle: (isOpen) => { this.isEditing = isOpen; },
    });
    const putLabel = async (i, criterion, score) => {
      const { view } = this;
      view.group.labels = await app.data.label({ run: app.address.run, g, rollout: i, criterion, score });
      if (this.view !== view) return; // another group was opened meanwhile
      const focusedName = this.rolloutPane.contains(document.activeElement) ? document.activeElement.ariaLabel : null;
      view.drawRollout();
      if (focusedName) this.rolloutPane.querySelector(`[aria-label="${CSS.escape(focusedName)}"]`)?.focus({ preventScroll: true });
      this.drawSave();
    };
    const canLabel = !app.data.isLive || app.labels;
    this.view = new GroupView(group, {
      rollout,
      query: app.address.query,
      linkTo: (i) => writeAddress({ ...app.address, view: "groups", group: g, rollout: i }),
      onRollout: (i) => app.navigate({ group: g, rollout: i, pane: undefined }, true),
      putLabel: canLabel ? (...label) => putLabel(...label).catch(app.fail) : null,
      before: edit,
      after: [app.data.isLive && sameView(app, g), metadataView(group.metadata), saveView(group)],
    });
    replaceChildren(this.article, this.view.matrixNodes());
    replaceChildren(this.rolloutPane, this.view.rolloutNode());
    this.article.dataset.group = g;
    this.article.dataset.rule = group.rule;
    if (focusKey) [...this.article.querySelectorAll("[data-key]")].find((field) => field.dataset.key === focusKey)?.focus();
    const place = this.listed.indexOf(g);
    this.list.open = place;
    if (place >= 0) this.list.bringIntoView(place);
    this.list.draw();
  }

  /** The filters; one that has the focus keeps it. */
  drawControls() {
    const { run, address } = this.app;
    const drawnFor = JSON.stringify([address.run, run.criteria, run.steps.length, run.rules, this.filter()]);
    const focused = this.controls.contains(document.activeElement) ? document.activeElement : null;
    if (this.drawnFor === drawnFor || focused?.matches("input")) return;
    this.drawnFor = drawnFor;
    const focusedLabel = focused?.closest("label")?.firstChild.textContent;
    const wasOpen = this.controls.querySelector("details")?.open;
    replaceChildren(this.controls, this.filterFields(wasOpen));
    if (focusedLabel) {
      const labels = [...this.controls.querySelectorAll("label")];
      labels.find((label) => label.firstChild.textContent === focusedLabel)?.lastChild.focus();
    }
  }

  filterFields(wasOpen) {
    const { app } = this;
    const { run, address } = app;
    const set = (key) => (value) => app.navigate({ [key]: value, group: undefined, rollout: undefined });
    const setWhenTyped = (key) => {
      let timer = 0;
      return (event) => {
        clearTimeout(timer);
        timer = setTimeout(() => set(key)(event.target.value), TYPING_PAUSE);
      };
    };
    const clear = () => {
      const nothing = Object.fromEntries(FILTERS.map((key) => [key, undefined]));
      return app.navigate({ ...nothing, group: undefined, rollout: undefined });
    };
    const asChoices = (names) => names.map((name) => [String(name), String(name)]);
    const active = FILTERS.filter((key) => key !== "query" && address[key]).length;
    const needsValue = address.criterion && ["low", "high"].includes(address.score);
    const stepChoices = [["", "all"], ...asChoices(run.steps)];
    // A point of a curve may stand for several steps, which the address has as 10-14.
    if (address.step && !run.steps.includes(Number(address.step))) stepChoices.push([address.step, address.step]);
    return [
      h("label", { class: "field grow" },
        h("span", {}, "Search"),
        h("input", {
          type: "search",
          id: "query",
          placeholder: "name, prompt, response, tool call, reason",
          value: address.query || "",
          oninput: setWhenTyped("query"),
        })),
      h("details", { class: "filters", open: wasOpen || active > 0 },
        h("summary", {}, "Filter and sort", active > 0 && h("small", {}, ` ${active} set`)),
        h("div", { class: "filter-fields" },
          choice("State", STATE_CHOICES, address.state || "", set("state")),
          choice("Criterion", [["", nameAny(run)], ...asChoices(run.criteria)], address.criterion || "", set("criterion")),
          address.criterion && choice("Its score", SCORE_CHOICES, address.score || "any", set("score")),
          needsValue && h("label", { class: "field narrow" },
            h("span", {}, "Value"),
            h("input", { type: "number", step: "any", value: address.value ?? "0", oninput: setWhenTyped("value") })),
          run.steps.length > 1 && choice("Step", stepChoices, address.step || "", set("step")),
          run.rules.length > 1 && choice("Rule", [["", "all"], ...asChoices(run.rules)], address.rule_filter || "", set("rule_filter")),
          choice("Sort by", SORT_CHOICES, address.sort || "file", set("sort")),
          h("button", { type: "button", class: "quiet", onclick: clear }, "Clear"))),
    ];
  }

  drawSave() {
    const { app } = this;
    if (!app.data.isLive) return replaceChildren(this.save, app.data.labels.size > 0 && this.saveLabelsButton());
    if (!this.listed.length) return replaceChildren(this.save);
    const groups = this.listed.length === app.run.groups ? [] : this.listed;
    const link = (format, text) => {
      const href = app.data.exportAddress(app.address.run, groups, format);
      return h("a", { class: "tiny-link", href, download: "" }, text);
    };
    return replaceChildren(this.save, link("csv", "CSV"), link("jsonl", "JSON"));
  }

  /** A report keeps labels in the page; this saves them as the file that the viewer would have written. */
  saveLabelsButton() {
    const { rows } = this;
    const isRepeated = (id) => rows.id.indexOf(id) !== rows.id.lastIndexOf(id);
    const nameOf = (g) => (isRepeated(rows.id[g]) ? `${rows.id[g]} (step ${rows.step[g]})` : rows.id[g]);
    const saveLabels = async () => download("labels.jsonl", "application/jsonl", await this.app.data.writeLabels(nameOf));
    return h("button", { type: "button", class: "tiny", onclick: saveLabels }, "Save labels");
  }

  steering() {
    const move = (by) => () => this.list.move(by, true);
    return h("div", { class: "steer" },
      h("button", { type: "button", class: "quiet", onclick: move(-1) }, "← Previous"),
      h("button", { type: "button", class: "quiet", onclick: move(1) }, "Next →"));
  }
}

// --------------------------------------------------------------------------------------------- below the matrix

/** The text of the choice "any criterion"; it says so if there are too many criteria to list all of them. */
function nameAny(run) {
  const listed = run.criteria.length;
  return listed < run.criteria_in_all ? `any (the ${listed} most frequent of ${run.criteria_in_all} are listed)` : "any";
}

/** The same prompt at other steps and in other runs: means of criteria, and the best responses side by side. */
function sameView(app, g) {
  const body = h("div", {}, h("p", { class: "muted" }, "Loading …"));
  const load = async () => {
    const { groups } = await app.data.same(app.address.run, g);
    const mine = groups.find((other) => other.run === app.address.run && other.g === g);
    if (groups.length < 2 || !mine) {
      replaceChildren(body, h("p", { class: "muted" }, "This prompt occurs nowhere else so far."));
      return;
    }
    replaceChildren(body, sameTable(groups, mine), bestBeside(groups, mine));
  };
  const loadWhenOpened = (event) => {
    if (event.target.open) load().catch(app.fail);
  };
  return h("details", { class: "same", ontoggle: loadWhenOpened },
    h("summary", {}, "The same prompt at other steps and in other runs"),
    body);
}

function sameTable(groups, mine) {
  const names = [...new Set(groups.flatMap((group) => Object.keys(group.means)))];
  const heads = [["Run", ""], ["Step", "number"], ["Rule", ""], ...names.map((name) => [name, "number"])];
  const row = (group) => h("tr", { class: group === mine ? "chosen" : null },
    h("th", { scope: "row" }, h("a", { href: writeAddress({ view: "groups", run: group.run, group: group.g }) }, group.name)),
    h("td", { class: "number" }, group.step ?? "–"),
    h("td", {}, group.rule),
    names.map((name) => h("td", { class: "number" }, number(group.means[name] ?? null))));
  return scrolled("The same prompt elsewhere", h("table", { class: "verdicts" },
    h("caption", { class: "quiet-caption" }, "Mean score of each criterion for the same prompt"),
    h("thead", {}, h("tr", {}, heads.map(([title, kind]) => h("th", { scope: "col", class: kind || null }, title)))),
    h("tbody", {}, groups.map(row))));
}

function bestBeside(groups, mine) {
  const others = groups.filter((group) => group !== mine && group.response !== null);
  if (mine.response === null || !others.length) return null;
  const place = h("div", {});
  const title = (group) => {
    const step = group.step === null ? "" : `, step ${group.step}`;
    return `${group.name}${step}: best, rollout ${group.best}`;
  };
  const draw = (at) => {
    const other = others[Number(at)];
    replaceChildren(place, at !== "" && sideBySide(mine.response, other.response, [title(mine), title(other)]));
  };
  const options = others.map((group, at) => [String(at), title(group)]);
  return [choice("Best response beside that of", [["", "none"], ...options], "", draw), place];
}

function metadataView(metadata) {
  if (!metadata) return null;
  return h("details", {},
    h("summary", {}, "Metadata"),
    h("pre", { class: "said given" }, JSON.stringify(metadata, null, 2)));
}

function saveView(group) {
  const name = `group-${group.id.replace(/[^\p{L}\p{N}._-]+/gu, "-").slice(0, 60)}`;
  const ranked = group.criteria.slice(0, group.ranked);
  const head = [
    "rollout", "reward", "ranking",
    ...group.criteria.map((criterion) => criterion.name),
    ...ranked.map((criterion) => `utility: ${criterion.name}`),
  ];
  const cells = (reward, i) => [i, reward, group.ranking[i], ...group.scores[i], ...(group.utilities ? group.utilities[i] : [])];
  const saveCsv = () => download(`${name}.csv`, "text/csv", csvOf([head, ...group.reward.map(cells)]));
  const saveJson = () => download(`${name}.json`, "application/json", JSON.stringify(group, null, 1));
  return h("p", { class: "save-group muted" },
    "Save this group: ",
    h("button", { type: "button", class: "tiny", onclick: saveCsv }, "CSV"),
    h("button", { type: "button", class: "tiny", onclick: saveJson }, "JSON"));
}
