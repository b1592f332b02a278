// A list of groups of any length, of which only the rows in view exist; arrow keys move through it.

import { meter } from "./charts.js";
import { chip, h, replaceChildren } from "./dom.js";
import { fixed, plural } from "./numbers.js";

const ROW = 68; // pixels, as in groups.css
export const BITS = { noSignal: 1, stopped: 2, softened: 4, missing: 8, rulesDisagree: 16, gateMissing: 32, longestWins: 64, judgesFailed: 128 };

/** facts(place): {g, id, title, step, size, spread, bits, stopped} or null while it is not there; choose(place, focus): open it. */
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
    const facts = this.facts(place), open = place === this.open, props = { role: "option", "aria-selected": String(open), "aria-setsize": this.length, "aria-posinset": place + 1, "--top": `${place * ROW}px` };
    if (!facts) return h("div", { class: "row waiting", ...props }, "…");
    if (open) this.element.setAttribute("aria-activedescendant", `row-${facts.g}`);
    const told = facts.bits & BITS.noSignal ? chip("no signal", "warn") : h("span", { class: "spread", title: `rewards differ by up to ${fixed(facts.spread)}` }, meter(facts.spread, `spread ${fixed(facts.spread)}`));
    return h("div", { class: open ? "row open" : "row", id: `row-${facts.g}`, ...props, onclick: () => this.chooseAt(place) },
      h("strong", {}, facts.id), h("span", { class: "title" }, facts.title || "no prompt recorded"),
      h("span", { class: "facts-line" }, this.manySteps() && facts.step !== null && `step ${facts.step} · `, plural(facts.size, "rollout"), told, stateChips(facts)));
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

/** What a reader should know about a group at a glance; `all`: with what the list has no room for. */
export function stateChips({ bits, stopped }, all) {
  return [
    stopped > 0 ? chip(`${stopped} stopped`, "bad") : all && Boolean(bits & BITS.softened) && chip("softened", "warn"),
    Boolean(bits & BITS.rulesDisagree) && chip("rules disagree", "info", "Another rule chooses another winner"),
    all && Boolean(bits & BITS.judgesFailed) && chip("judges failed", "bad", "A judge was asked and gave no verdict"),
    all && Boolean(bits & BITS.longestWins) && chip("the longest wins", "warn"),
  ];
}
