// The groups of a run: filters and search on the server, a list of which only what is in view is fetched, one group open.

import { FILTERS, writeAddress } from "./address.js";
import { addressOf, get } from "./api.js";
import { add, choice, h, replaceChildren } from "./dom.js";
import { GroupList } from "./list.js";
import { count, percent, plural } from "./numbers.js";
import { Detail } from "./detail.js";

const PAGE = 60; // rows in one answer of the server
const STATES = [
  ["", "any state"], ["signal", "with signal"], ["noSignal", "no signal"], ["stopped", "stopped by a gate"], ["softened", "softened by a gate"], ["missing", "scores missing"],
  ["judgesFailed", "judges failed"], ["gateMissing", "gate undecided"], ["rulesDisagree", "rules disagree"], ["longestWins", "the longest wins"],
];
const SORTS = [["file", "as in the file"], ["spread", "largest spread"], ["narrow", "smallest spread"], ["size", "most rollouts"], ["stopped", "most stopped"], ["latest", "latest step"], ["first", "first step"]];
const SCORES = [["any", "asked for"], ["low", "a rollout at most"], ["high", "a rollout at least"], ["differs", "tells apart"], ["constant", "ties all"]];

export class Groups {
  constructor(section, app) {
    this.app = app;
    this.pages = new Map();
    this.asking = new Set();
    this.total = 0;
    this.turn = 0;
    this.asked = null; // filters, as they were last asked for
    this.status = h("output", { class: "status", "aria-live": "polite" });
    this.save = h("span", { class: "save-list" });
    this.list = new GroupList({ facts: (place) => this.factsAt(place), choose: (place, focus) => this.choose(place, focus), manySteps: () => app.run.steps.length > 1 });
    this.controls = h("form", { class: "controls", role: "search", onsubmit: (event) => event.preventDefault() });
    this.article = h("article", { class: "group", "aria-label": "Group" });
    this.detail = new Detail(this.article, app);
    add(section, this.controls, h("div", { class: "browser" },
      h("div", { class: "side" }, h("div", { class: "status-line" }, this.status, this.save), this.list.element), h("div", { class: "main" }, this.steer(), this.article)));
  }

  filters() {
    return Object.fromEntries(FILTERS.map((key) => [key, this.app.address[key] ?? ""]));
  }

  /** Draw what the address says; `again`: there are new records. */
  async show(again) {
    const { address, run } = this.app, key = JSON.stringify([address.run, run.epoch, this.filters()]);
    const drawn = JSON.stringify([address.run, run.criteria, run.steps.length, run.rules]);
    const typing = this.controls.contains(document.activeElement) && document.activeElement.matches("input");
    if (!typing && (this.drawn !== drawn || this.asked !== key)) {
      this.drawControls();
      this.drawn = drawn;
    }
    this.drawSave();
    if (this.asked !== key) {
      this.asked = key;
      this.pages.clear();
      this.list.open = -1;
      await this.load(0, true);
    } else if (again) await this.refresh();
    if (address.group === undefined) {
      const first = this.factsAt(0);
      if (first) await this.detail.show(first.g, address.rollout, address.rule || "");
      this.list.open = first ? 0 : -1;
    } else {
      await this.detail.show(address.group, address.rollout, address.rule || "");
      await this.findPlace(address.group);
    }
    this.list.draw();
  }

  /** Draw the filters anew; the one that had the focus has it again. */
  drawControls() {
    const label = this.controls.contains(document.activeElement) ? document.activeElement.closest("label")?.firstChild.textContent : undefined;
    this.fillControls();
    if (label) [...this.controls.querySelectorAll("label")].find((field) => field.firstChild.textContent === label)?.lastChild.focus();
  }

  fillControls() {
    const { app } = this, { run, address } = app, set = (key) => (value) => app.navigate({ [key]: value, group: undefined, rollout: undefined });
    let timer = 0;
    const wait = (key) => (event) => { clearTimeout(timer); timer = setTimeout(() => set(key)(event.target.value), 250); };
    const named = (names) => names.map((name) => [name, name]);
    const score = address.criterion && [choice("Its score", SCORES, address.score || "any", set("score")),
      ["low", "high"].includes(address.score) && h("label", { class: "field narrow" }, h("span", {}, "Value"), h("input", { type: "number", step: "any", value: address.value ?? "0", oninput: wait("value") }))];
    replaceChildren(this.controls,
      h("label", { class: "field grow" }, h("span", {}, "Search"), h("input", { type: "search", id: "query", placeholder: "name, prompt, response, tool call, reason", value: address.query || "", oninput: wait("query") })),
      choice("State", STATES, address.state || "", set("state")),
      choice("Criterion", [["", "any"], ...named(run.criteria)], address.criterion || "", set("criterion")), ...(score || []),
      run.steps.length > 1 && choice("Step", [["", "all"], ...named(run.steps.map(String))], address.step || "", set("step")),
      run.rules.length > 1 && choice("Rule", [["", "all"], ...named(run.rules)], address.rule_filter || "", set("rule_filter")),
      choice("Sort by", SORTS, address.sort || "file", set("sort")),
      h("button", { type: "button", class: "quiet", onclick: () => app.navigate({ ...Object.fromEntries(FILTERS.map((key) => [key, undefined])), group: undefined, rollout: undefined }) }, "Clear"));
  }

  drawSave() {
    const { address } = this.app;
    const file = (format, text) => h("a", { class: "tiny-link", href: addressOf("export", { run: address.run, ...this.filters(), format }), download: "" }, text);
    replaceChildren(this.save, file("csv", "CSV"), file("jsonl", "JSON"));
  }

  steer() {
    const move = (by) => () => this.list.move(by, true);
    const back = h("button", { type: "button", class: "quiet back", onclick: () => { this.list.element.scrollIntoView({ block: "center" }); this.list.element.focus({ preventScroll: true }); } }, "To the list");
    return h("div", { class: "steer" }, back, h("button", { type: "button", class: "quiet", onclick: move(-1) }, "← Previous"), h("button", { type: "button", class: "quiet", onclick: move(1) }, "Next →"));
  }

  async load(page, top) {
    const turn = this.asked, key = `${page}|${turn}`;
    if (this.asking.has(key)) return;
    this.asking.add(key);
    try {
      const found = await get("groups", { run: this.app.address.run, ...this.filters(), offset: page * PAGE });
      if (turn !== this.asked) return;
      this.pages.set(page, found.rows);
      this.listed(found, top);
      if (found.done < 1) setTimeout(() => { if (turn === this.asked) this.load(page).catch(this.app.fail); }, 20);
    } finally {
      this.asking.delete(key);
    }
  }

  listed({ total, all, ready, done }, top) {
    this.total = total;
    const notes = [done < 1 && `searching ${percent(done)}`, ready < all && `reading ${percent(ready / all)}`].filter(Boolean).join(", ");
    this.status.textContent = `${count(total)} of ${plural(all, "group")}${notes ? `, ${notes}` : ""}`;
    this.list.show(total, top);
  }

  /** The pages that are in view, asked for again; others are forgotten. */
  async refresh() {
    const first = Math.floor(this.list.element.scrollTop / 68 / PAGE), kept = [first, first + 1].filter((page) => this.pages.has(page));
    for (const page of [...this.pages.keys()]) if (!kept.includes(page)) this.pages.delete(page);
    await Promise.all((kept.length ? kept : [0]).map((page) => this.load(page)));
  }

  factsAt(place) {
    const page = Math.floor(place / PAGE), rows = this.pages.get(page);
    if (!rows && place < this.total) this.load(page).catch(this.app.fail);
    return rows?.[place % PAGE] || null;
  }

  async factsSoon(place) {
    if (!this.pages.has(Math.floor(place / PAGE))) await this.load(Math.floor(place / PAGE));
    return this.factsAt(place);
  }

  async choose(place, focus) {
    const facts = await this.factsSoon(place);
    if (!facts) return;
    this.list.open = place;
    await this.app.navigate({ group: facts.g, rollout: undefined }, true);
    const narrow = matchMedia("(max-width: 900px)").matches;
    if (narrow && document.activeElement !== this.list.element) this.article.parentElement.scrollIntoView({ block: "start" });
    if (focus) this.article.querySelector(".group-name")?.focus({ preventScroll: true });
  }

  async findPlace(g) {
    if (this.list.open >= 0 && this.factsAt(this.list.open)?.g === g) return;
    const { place } = await get("place", { run: this.app.address.run, ...this.filters(), g });
    this.list.open = place;
    if (place >= 0) this.list.bringIntoView(place);
  }

  linkTo(g, rollout) {
    return writeAddress({ ...this.app.address, view: "groups", group: g, rollout });
  }
}
