// Who beats whom on a criterion: rows against columns. Wins are filled, ties are dots, losses are outlined: not by colour alone.

import { choice, h, nameParts, replaceChildren, s } from "./dom.js";
import { isNumber, percent } from "./numbers.js";
import { against, isKnown, outcomesOf } from "./words.js";

function outcomeMatrix(group, k) {
  const outcomes = outcomesOf(group, k), G = group.G, cell = 14, margin = G <= 40 ? 16 : 2, side = margin + G * cell;
  const shapes = { win: "", tie: "", loss: "" };
  outcomes.forEach((row, i) => row.forEach((value, j) => {
    if (i === j || value === null) return;
    const x = margin + j * cell, y = margin + i * cell;
    if (value > 0.5) shapes.win += `M${x + 1} ${y + 1}h${cell - 2}v${cell - 2}h${2 - cell}z`;
    else if (value < 0.5) shapes.loss += `M${x + 3} ${y + 3}h${cell - 6}v${cell - 6}h${6 - cell}z`;
    else shapes.tie += `M${x + cell / 2 - 1.5} ${y + cell / 2 - 1.5}h3v3h-3z`;
  }));
  const numbers = margin < 10 ? [] : outcomes.flatMap((_, i) => [
    s("text", { x: margin - 4, y: margin + i * cell + 10.5, "text-anchor": "end" }, String(i)),
    s("text", { x: margin + i * cell + cell / 2, y: margin - 5, "text-anchor": "middle" }, String(i)),
  ]);
  const words = outcomes.map((row, i) => `${i} ${isKnown(group, i, k) ? against(row, i) : "not compared"}`).join(". ");
  return s("svg", { class: "matrix", viewBox: `0 0 ${side} ${side}`, role: "img", "aria-label": `${group.criteria[k].name}: ${words}` },
    s("rect", { class: "ground", x: margin, y: margin, width: G * cell, height: G * cell }), numbers,
    Object.entries(shapes).map(([kind, d]) => d && s("path", { class: kind, d })));
}

export function matrices(group) {
  const all = group.weights.map((_, k) => k);
  const tells = all.filter((k) => outcomesOf(group, k).some((row) => row.some((x) => x !== null && x !== 0.5)));
  const silent = all.filter((k) => !tells.includes(k)).map((k) => group.criteria[k].name);
  const draw = (k) => h("figure", { class: "small-matrix", "--side": `${16 + group.G * 14}px` }, h("figcaption", {}, nameParts(group.criteria[k].name),
    isNumber(group.effective?.[k]) && h("small", {}, ` decides ${percent(group.effective[k])}`)), outcomeMatrix(group, k));
  const key = (kind, text) => h("span", {}, h("i", { class: kind }), text);
  const body = h("div", { class: "matrices" });
  const choose = group.G > 24 && tells.length > 1; // many large ones at once would be slow, and unreadable
  replaceChildren(body, (choose ? tells.slice(0, 1) : tells).map(draw));
  return [
    choose && choice("Criterion", tells.map((k) => [String(k), group.criteria[k].name]), String(tells[0]), (k) => replaceChildren(body, draw(Number(k)))),
    body,
    h("p", { class: "muted legend" }, key("win", "row beats column"), key("tie", "tie"), key("loss", "row loses"), h("span", {}, "empty: not compared")),
    silent.length > 0 && h("p", { class: "muted" }, `Tell no rollouts apart: ${silent.join(", ")}`),
  ];
}
