// The keyboard, and the card that lists its keys.

import { byId, h, replaceChildren } from "./dom.js";

const KEYS = [
  ["j, k", "next group, previous group"], ["l, h", "next rollout, previous rollout"], ["c", "compare with the best of the others, or stop comparing"], ["/", "search"],
  ["1, 2, 3, 4", "summary, steps, groups, runs compared"], ["r", "live or still"], ["t", "theme"], ["?", "these keys"], ["Esc", "leave a field, close this card"],
];

export function setUpKeys(app) {
  const card = byId("keys");
  replaceChildren(card, h("h2", {}, "Keys"), h("dl", { class: "facts" }, KEYS.map(([keys, what]) => h("div", {}, h("dt", {}, h("kbd", {}, keys)), h("dd", {}, what)))),
    h("button", { type: "button", onclick: () => card.close() }, "Close"));
  byId("help").addEventListener("click", () => card.showModal());
  const { browser } = app, view = () => browser.view;
  const does = {
    j: () => browser.list.move(1), k: () => browser.list.move(-1), l: () => view()?.move(1), h: () => view()?.move(-1), c: () => view()?.toggleCompare(),
    "/": () => app.navigate({ view: "groups" }).then(() => byId("query")?.focus()), 1: () => app.navigate({ view: "summary" }), 2: () => app.navigate({ view: "steps" }), 3: () => app.navigate({ view: "groups" }),
    4: () => app.runs.length > 1 && app.navigate({ view: "compare" }), r: () => app.data.isLive && byId("live").click(), t: () => byId("theme").click(), "?": () => card.showModal(),
  };
  const needsGroups = new Set(["j", "k", "l", "h", "c"]);
  addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, select, textarea");
    if (event.key === "Escape" && typing) return void event.target.blur();
    if (typing || card.open || event.ctrlKey || event.metaKey || event.altKey || !does[event.key]) return;
    if (needsGroups.has(event.key) && app.view !== "groups") return;
    event.preventDefault();
    does[event.key]();
  });
}
