// The keyboard, and the card that lists its keys and explains the colours.

import { byId, h, replaceChildren } from "./dom.js";

const KEYS = [
  ["j, k", "next group, previous group"],
  ["l, h", "next rollout, previous rollout"],
  ["c", "compare with the best of the others, or stop comparing"],
  ["/", "search"],
  ["1, 2, 3, 4, 5", "summary, steps, groups, runs compared, benchmarks"],
  ["r", "follow new records, or pause"],
  ["t", "theme"],
  ["?", "these keys"],
  ["Esc", "leave a field, close this card"],
];
const COLOURS = [
  ["plus", "wins, agrees, raises the reward"],
  ["minus", "loses, contradicts, lowers the reward"],
  ["bad", "stopped, failed"],
  ["warn", "worth a look"],
  ["quantity", "how much or how many"],
];
const GROUP_KEYS = ["j", "k", "l", "h", "c"];

export function setUpKeys(app) {
  const card = byId("keys");
  replaceChildren(card,
    h("h2", {}, "Keys"),
    h("dl", { class: "facts" }, KEYS.map(([keys, what]) => h("div", {}, h("dt", {}, h("kbd", {}, keys)), h("dd", {}, what)))),
    h("h2", {}, "Colours"),
    h("dl", { class: "facts" }, COLOURS.map(([kind, what]) => h("div", {}, h("dt", {}, h("i", { class: `swatch ${kind}` })), h("dd", {}, what)))),
    h("p", { class: "muted" }, "Every run keeps its own colour in all curves."),
    h("button", { type: "button", onclick: () => card.close() }, "Close"));
  byId("help").addEventListener("click", () => card.showModal());

  const { browser } = app;
  const openView = (view) => {
    if (app.views.some(([name]) => name === view)) app.navigate({ view });
  };
  const search = async () => {
    await app.navigate({ view: "groups", pane: "list" });
    byId("query")?.focus();
  };
  const toggleLive = () => {
    if (app.data.isLive) byId("live").click();
  };
  const actions = {
    j: () => browser.list.move(1),
    k: () => browser.list.move(-1),
    l: () => browser.view?.move(1),
    h: () => browser.view?.move(-1),
    c: () => browser.view?.toggleCompare(),
    "/": search,
    1: () => openView("summary"),
    2: () => openView("steps"),
    3: () => openView("groups"),
    4: () => openView("compare"),
    5: () => openView("evaluation"),
    r: toggleLive,
    t: () => byId("theme").click(),
    "?": () => card.showModal(),
  };
  addEventListener("keydown", (event) => {
    const isTyping = event.target.matches("input, select, textarea");
    if (event.key === "Escape" && isTyping) event.target.blur();
    if (isTyping || card.open || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!actions[event.key] || (GROUP_KEYS.includes(event.key) && app.view !== "groups")) return;
    event.preventDefault();
    actions[event.key]();
  });
}
