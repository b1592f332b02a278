// The groups: what is searched, filtered and sorted, the list, and the group that is open.

import { add, chip, choice, h, replaceChildren } from "./dom.js";
import { GroupView } from "./group.js";
import { GroupList, stateChips } from "./list.js";
import { count, percent, plural } from "./numbers.js";
import { SORTS, STATES, filtered, searchTexts, sortGroups } from "./search.js";

export class Browser {
  /** criteria: names to filter by; fail(error): say that something broke. */
  constructor(section, store, criteria, fail) {
    this.store = store;
    this.criteria = criteria;
    this.fail = fail;
    this.filter = { query: "", criterion: "", state: "", step: "", rule: "", sort: "file" };
    this.found = [];
    this.open = -1;
    this.view = null;
    this.turn = 0;
    const manySteps = new Set(store.columns.step).size > 1;
    this.status = h("output", { class: "status", "aria-live": "polite" });
    this.list = new GroupList({ facts: (place) => this.factsAt(place), choose: (place, focus) => this.choose(this.found[place], { focus, asked: true }), manySteps: () => manySteps });
    this.detail = h("article", { class: "group", "aria-label": "Group" });
    this.controls = h("form", { class: "controls", role: "search", onsubmit: (event) => event.preventDefault() });
    add(section, this.controls, h("div", { class: "browser" }, h("div", { class: "side" }, this.status, this.list.element), h("div", { class: "main" }, this.steer(), this.detail)));
    this.drawControls();
    this.apply();
  }

  drawControls() {
    const { store, filter } = this;
    const steps = [...new Set(store.columns.step)].filter((step) => step !== null).sort((a, b) => a - b);
    const set = (key) => (value) => { filter[key] = value; this.apply(); };
    let timer = 0;
    const query = h("input", { type: "search", id: "query", placeholder: "name, prompt, response, reason", value: filter.query, oninput: (event) => {
      clearTimeout(timer);
      timer = setTimeout(() => set("query")(event.target.value), 200);
    } });
    replaceChildren(this.controls, h("label", { class: "field grow" }, h("span", {}, "Search"), query),
      choice("Criterion", [["", "any"], ...this.criteria.map((name) => [name, name])], filter.criterion, set("criterion")),
      choice("State", STATES, filter.state, set("state")),
      steps.length > 1 && choice("Step", [["", "all"], ...steps.map((step) => [String(step), String(step)])], filter.step, set("step")),
      new Set(store.columns.rule).size > 1 && choice("Rule", [["", "all"], ...store.tables.rules.map((rule, i) => [String(i), rule])], filter.rule, set("rule")),
      choice("Sort by", SORTS, filter.sort, set("sort")),
      h("button", { type: "button", class: "quiet", onclick: () => this.show({}) }, "Clear"));
  }

  steer() {
    const { list } = this, move = (by) => () => list.move(by, true);
    const back = h("button", { type: "button", class: "quiet back", onclick: () => { list.element.scrollIntoView({ block: "center" }); list.element.focus({ preventScroll: true }); } }, "To the list");
    return h("div", { class: "steer" }, back, h("button", { type: "button", class: "quiet", onclick: move(-1) }, "← Previous"), h("button", { type: "button", class: "quiet", onclick: move(1) }, "Next →"));
  }

  /** Start anew with some filters, and bring the list into view. */
  show(filter) {
    Object.assign(this.filter, { query: "", criterion: "", state: "", step: "", rule: "" }, filter);
    this.drawControls();
    this.apply();
    this.controls.scrollIntoView({ block: "start" });
  }

  apply() {
    const turn = this.turn += 1, { query, sort } = this.filter, candidates = filtered(this.store, this.filter);
    if (!query.trim()) return this.listed(sortGroups(this.store, candidates, sort), "");
    const report = (hit, done, total) => this.listed(sortGroups(this.store, [...hit], sort), done < total ? `, searching ${percent(done / total)}` : "");
    return searchTexts(this.store, candidates, query.trim(), () => turn === this.turn, report).catch(this.fail);
  }

  listed(found, note) {
    const first = found[0] !== this.found[0];
    this.found = found;
    this.status.textContent = `${count(found.length)} of ${plural(this.store.length, "group")}${note}`;
    this.list.open = found.indexOf(this.open);
    this.list.show(found.length, first);
  }

  factsAt(place) {
    const g = this.found[place], c = this.store.columns;
    return { g, id: c.id[g], title: c.title[g], step: c.step[g], size: c.size[g], spread: c.spread[g], bits: c.bits[g], stopped: c.stopped[g] };
  }

  /** Open a group; the latest choice wins, however long its chunk takes. asked: the user chose it, so the address says so. */
  async choose(g, { rollout, focus, asked } = {}) {
    this.open = g;
    this.list.open = this.found.indexOf(g);
    this.list.draw();
    try {
      const group = await this.store.group(g);
      if (this.open !== g) return;
      const { tables, columns } = this.store, rule = tables.rules[columns.rule[g]];
      const say = (i) => history.replaceState(null, "", `#group=${g}${i === undefined ? "" : `&rollout=${i}`}`);
      this.view = new GroupView(group, { rule, rollout, query: this.filter.query, chips: this.chips(g, group, rule), onRollout: say, linkTo: (i) => `#group=${g}&rollout=${i}` });
      replaceChildren(this.detail, this.view.nodes());
      this.detail.dataset.group = g;
      if (!asked) return;
      say(rollout);
      const narrow = matchMedia("(max-width: 900px)").matches;
      if (narrow && document.activeElement !== this.list.element) this.detail.parentElement.scrollIntoView({ block: "start" });
      if (focus) this.detail.querySelector(".group-name").focus({ preventScroll: true });
    } catch (error) {
      this.fail(error);
    }
  }

  chips(g, group, rule) {
    const c = this.store.columns, { flags } = this.store.tables;
    return h("p", { class: "chips" }, c.step[g] !== null && chip(`step ${c.step[g]}`), chip(plural(group.G, "rollout")), chip(rule),
      group.noSignal && chip("no signal", "warn"), stateChips({ bits: c.bits[g], stopped: c.stopped[g] }, true),
      c.flags[g].map((f) => flags[f]).filter((flag) => flag !== "no signal").map((flag) => chip(flag, "plain")));
  }

  /** What the address asks for, if it is a group: "#group=17&rollout=3". */
  follow(hash) {
    const asked = new URLSearchParams(hash.slice(1)), g = Number(asked.get("group"));
    if (!asked.has("group") || !Number.isInteger(g) || g < 0 || g >= this.store.length) return false;
    const rollout = asked.has("rollout") ? Number(asked.get("rollout")) : undefined;
    const shown = this.choose(g, { rollout }).then(() => {
      const place = this.found.indexOf(g);
      if (place >= 0) this.list.bringIntoView(place);
      this.detail.parentElement.scrollIntoView({ block: "start" });
    });
    return shown;
  }
}
