// The list of groups, of which only the rows in view exist, and the group that is open.

const ROW = 68;

class Browser {
  /** criteria: names to filter by. */
  constructor(section, store, criteria) {
    this.store = store;
    this.criteria = criteria;
    this.filter = { query: "", criterion: "", state: "", step: "", rule: "", sort: "file" };
    this.found = [];
    this.manySteps = new Set(store.columns.step).size > 1;
    this.open = -1;
    this.turn = 0;
    this.status = h("output", { class: "status", "aria-live": "polite" });
    this.space = h("div", { class: "space" });
    this.list = h("div", { class: "list", role: "listbox", tabindex: "0", "aria-label": "Groups", onscroll: () => this.drawRows(), onkeydown: (event) => this.key(event) }, this.space);
    this.detail = h("article", { class: "group", "aria-label": "Group" });
    this.controls = h("form", { class: "controls", role: "search", onsubmit: (event) => event.preventDefault() });
    add(section, this.controls, h("div", { class: "browser" }, h("div", { class: "side" }, this.status, this.list), h("div", { class: "main" }, this.steer(), this.detail)));
    new ResizeObserver(() => this.drawRows()).observe(this.list);
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
    const move = (by) => () => this.move(by, true);
    const back = h("button", { type: "button", class: "quiet back", onclick: () => { this.list.scrollIntoView({ block: "center" }); this.list.focus({ preventScroll: true }); } }, "To the list");
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
    if (!query.trim()) return this.list_(sortGroups(this.store, candidates, sort), "");
    const report = (hit, done, total) => this.list_(sortGroups(this.store, [...hit], sort), done < total ? `, searching ${percent(done / total)}` : "");
    return searchTexts(this.store, candidates, query.trim(), () => turn === this.turn, report).catch(fail);
  }

  list_(found, note) {
    const first = found[0] !== this.found[0];
    this.found = found;
    this.status.textContent = `${count(found.length)} of ${plural(this.store.length, "group")}${note}`;
    this.space.style.height = `${found.length * ROW}px`;
    if (first) this.list.scrollTop = 0;
    this.drawRows();
  }

  drawRows() {
    const from = Math.max(0, Math.floor(this.list.scrollTop / ROW) - 4), to = Math.min(this.found.length, from + Math.ceil(this.list.clientHeight / ROW) + 9);
    replaceChildren(this.space, this.found.slice(from, to).map((g, at) => this.row(g, from + at)),
      this.found.length === 0 && h("p", { class: "muted nothing" }, "No group fits."));
  }

  row(g, place) {
    const c = this.store.columns, open = g === this.open;
    if (open) this.list.setAttribute("aria-activedescendant", `row-${g}`);
    const state = this.store.has(g, BITS.noSignal) ? chip("no signal", "warn") : h("span", { class: "spread", title: `rewards differ by up to ${fixed(c.spread[g])}` }, meter(c.spread[g], `spread ${fixed(c.spread[g])}`));
    return h("div", { class: open ? "row open" : "row", id: `row-${g}`, role: "option", "aria-selected": String(open), "aria-setsize": this.found.length, "aria-posinset": place + 1, "--top": `${place * ROW}px`, onclick: () => this.choose(g) },
      h("strong", {}, c.id[g]), h("span", { class: "title" }, c.title[g] || "no prompt recorded"),
      h("span", { class: "facts-line" }, this.manySteps && c.step[g] !== null && `step ${c.step[g]} · `, `${c.size[g]} rollouts`, state,
        c.stopped[g] > 0 && chip(`${c.stopped[g]} stopped`, "bad"), this.store.has(g, BITS.disputed) && chip("disputed", "info")));
  }

  key(event) {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    this.move(by);
  }

  move(by, focus) {
    if (!this.found.length) return;
    const at = this.found.indexOf(this.open), next = Math.max(0, Math.min(this.found.length - 1, at < 0 ? 0 : at + by));
    const top = next * ROW, { scrollTop, clientHeight } = this.list;
    if (top < scrollTop || top + ROW > scrollTop + clientHeight) this.list.scrollTop = top - clientHeight / 2;
    this.choose(this.found[next], focus);
  }

  /** Open a group; the latest choice wins, however long its chunk takes. */
  async choose(g, focus) {
    this.open = g;
    this.drawRows();
    try {
      const group = await this.store.group(g);
      if (this.open !== g) return;
      replaceChildren(this.detail, groupView(group, this.store, g));
      this.detail.dataset.group = g;
      history.replaceState(null, "", `#group=${g}`);
      const narrow = matchMedia("(max-width: 900px)").matches;
      if (narrow && document.activeElement !== this.list) this.detail.parentElement.scrollIntoView({ block: "start" });
      if (focus) this.detail.querySelector(".group-name").focus({ preventScroll: true });
    } catch (error) {
      fail(error);
    }
  }
}
