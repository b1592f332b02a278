// A list of groups of any length, of which only the rows in view exist; arrow keys move through it.

import { meter } from "./charts.js";
import { chip, h, replaceChildren } from "./dom.js";
import { STATE } from "./filters.js";
import { stateChips } from "./group.js";
import { fixed, plural } from "./numbers.js";

const ROW = 68; // pixels, as in style.css

/** facts(place): {g, id, title, step, size, spread, states, stopped}; choose(place, focus): open it. */
export class GroupList {
  constructor({ facts, choose, manySteps }) {
    this.facts = facts;
    this.chooseAt = choose;
    this.manySteps = manySteps;
    this.length = 0;
    this.open = -1; // place
    this.space = h("div", { class: "space" });
    this.element = h("div", { class: "list", role: "listbox", tabindex: "0", "aria-label": "Groups", onscroll: () => this.draw(), onkeydown: (event) => this.key(event) }, this.space);
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  /** Another list; `top`: show its beginning. */
  show(length, top) {
    this.length = length;
    this.space.style.height = `${length * ROW}px`;
    if (top) this.element.scrollTop = 0;
    this.draw();
  }

  draw() {
    const { scrollTop, clientHeight } = this.element;
    const from = Math.max(0, Math.floor(scrollTop / ROW) - 4), to = Math.min(this.length, from + Math.ceil(clientHeight / ROW) + 9);
    replaceChildren(this.space, Array.from({ length: Math.max(0, to - from) }, (_, i) => this.row(from + i)),
      this.length === 0 && h("p", { class: "muted nothing" }, "No group fits."));
  }

  row(place) {
    const facts = this.facts(place), open = place === this.open;
    const props = { role: "option", "aria-selected": String(open), "aria-setsize": this.length, "aria-posinset": place + 1, "--top": `${place * ROW}px` };
    if (open) this.element.setAttribute("aria-activedescendant", `row-${facts.g}`);
    const signal = facts.states & STATE.noSignal ? chip("no signal", "warn") : h("span", { class: "spread", title: `rewards differ by up to ${fixed(facts.spread)}` }, meter(facts.spread, `spread ${fixed(facts.spread)}`));
    return h("div", { class: open ? "row open" : "row", id: `row-${facts.g}`, ...props, onclick: () => this.chooseAt(place) },
      h("strong", {}, facts.id), h("span", { class: "title" }, facts.title || "no prompt recorded"),
      h("span", { class: "facts-line" }, this.manySteps() && facts.step !== null && `step ${facts.step} · `, plural(facts.size, "rollout"), signal, stateChips(facts)));
  }

  key(event) {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    this.move(by);
  }

  move(by, focus) {
    if (!this.length) return;
    const next = Math.max(0, Math.min(this.length - 1, this.open < 0 ? 0 : this.open + by));
    this.bringIntoView(next);
    this.chooseAt(next, focus);
  }

  bringIntoView(place) {
    const top = place * ROW, { scrollTop, clientHeight } = this.element;
    if (top < scrollTop || top + ROW > scrollTop + clientHeight) this.element.scrollTop = top - clientHeight / 2;
  }
}
