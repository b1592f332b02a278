// A list of groups of any length. Only the rows in view exist as elements; arrow keys move through it.

import { meter } from "./charts.js";
import { chip, h, replaceChildren } from "./dom.js";
import { STATE } from "./filters.js";
import { stateChips } from "./group.js";
import { fixed, plural } from "./numbers.js";

const ROW = 68; // height of a row in pixels, as in style.css
const ROWS_ABOVE = 4; // rows that are drawn beyond the visible ones, so that scrolling shows no gaps
const ROWS_BELOW = 5;

const KEY_MOVES = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };

/** facts(place): {g, id, title, step, size, spread, states, stopped}; choose(place, focus): open that group. */
export class GroupList {
  constructor({ facts, choose, manySteps }) {
    this.facts = facts;
    this.chooseAt = choose;
    this.manySteps = manySteps;
    this.length = 0;
    this.open = -1; // place of the open group, -1 for none
    this.space = h("div", { class: "space" });
    this.element = h("div",
      {
        class: "list",
        role: "listbox",
        tabindex: "0",
        "aria-label": "Groups",
        onscroll: () => this.draw(),
        onkeydown: (event) => this.key(event),
      },
      this.space);
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  /** Show another list of this length; `top`: scroll to its beginning. */
  show(length, top) {
    this.length = length;
    this.space.style.height = `${length * ROW}px`;
    if (top) this.element.scrollTop = 0;
    this.draw();
  }

  draw() {
    const { scrollTop, clientHeight } = this.element;
    const from = Math.max(0, Math.floor(scrollTop / ROW) - ROWS_ABOVE);
    const to = Math.min(this.length, from + Math.ceil(clientHeight / ROW) + ROWS_ABOVE + ROWS_BELOW);
    const rows = [];
    for (let place = from; place < to; place += 1) rows.push(this.row(place));
    const isEmpty = this.length === 0;
    replaceChildren(this.space, rows, isEmpty && h("p", { class: "muted nothing" }, "No group matches."));
  }

  row(place) {
    const facts = this.facts(place);
    const isOpen = place === this.open;
    const id = `row-${facts.g}`;
    if (isOpen) this.element.setAttribute("aria-activedescendant", id);
    const props = {
      class: isOpen ? "row open" : "row",
      id,
      role: "option",
      "aria-selected": String(isOpen),
      "aria-setsize": this.length,
      "aria-posinset": place + 1,
      "--top": `${place * ROW}px`,
      onclick: () => this.chooseAt(place),
    };
    const spread = fixed(facts.spread);
    const signal = facts.states & STATE.noSignal
      ? chip("no signal", "warn")
      : h("span", { class: "spread", title: `rewards differ by up to ${spread}` }, meter(facts.spread, `spread ${spread}`));
    const step = this.manySteps() && facts.step !== null && `step ${facts.step} · `;
    return h("div", props,
      h("strong", {}, facts.id),
      h("span", { class: "title" }, facts.title || "no prompt recorded"),
      h("span", { class: "facts-line" }, step, plural(facts.size, "rollout"), signal, stateChips(facts)));
  }

  key(event) {
    const by = KEY_MOVES[event.key];
    if (by === undefined) return;
    event.preventDefault();
    this.move(by);
  }

  /** Open the group that is `by` rows further down. */
  move(by, focus) {
    if (!this.length) return;
    const target = this.open < 0 ? 0 : this.open + by;
    const next = Math.max(0, Math.min(this.length - 1, target));
    this.bringIntoView(next);
    this.chooseAt(next, focus);
  }

  bringIntoView(place) {
    const top = place * ROW;
    const { scrollTop, clientHeight } = this.element;
    const isVisible = top >= scrollTop && top + ROW <= scrollTop + clientHeight;
    if (!isVisible) this.element.scrollTop = top - clientHeight / 2;
  }
}
