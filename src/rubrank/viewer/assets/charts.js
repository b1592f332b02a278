// Charts: bars with axes, lines with their intervals, rows of values with whiskers. Every one carries its numbers as text, too.

import { fill, h, s } from "./dom.js";
import { plotButtons } from "./save.js";
import { count, isNumber, number, percent, signed, sum } from "./numbers.js";

/** Bars of a distribution (report/distribution.py); `tall` ones have axes. */
export function bars(distribution, label, tall, unit = "rollouts") {
  if (!distribution.counts.length) return h("span", { class: "muted" }, "no scores");
  return tall ? histogram(distribution, label, unit) : smallBars(distribution, label);
}

const barName = ({ values, edges }, i) => (values ? number(values[i]) : `${number(edges[i])} to ${number(edges[i + 1])}`);

function barsText(distribution, label) {
  const total = sum(distribution.counts);
  return `${label}: ${distribution.counts.map((n, i) => `${barName(distribution, i)}: ${percent(n / total)}`).join(", ")}`;
}

function drawnBars(distribution, box) {
  const { counts } = distribution, most = Math.max(...counts), step = box.width / counts.length, gap = Math.min(2, step * 0.2), total = sum(counts);
  return counts.map((n, i) => {
    const size = n ? Math.max(1.5, (n / most) * box.height) : 0;
    return s("rect", { x: box.left + i * step + gap / 2, y: box.top + box.height - size, width: step - gap, height: size },
      s("title", {}, `${barName(distribution, i)}: ${count(n)} (${percent(n / total, 1)})`));
  });
}

function smallBars(distribution, label) {
  const { values, edges, counts } = distribution, box = { left: 0, top: 0, width: 120, height: 34 };
  const chart = s("svg", { class: "bars", viewBox: "0 0 120 34", preserveAspectRatio: "none", role: "img", "aria-label": barsText(distribution, label) }, drawnBars(distribution, box));
  const low = values ? values[0] : edges[0], high = values ? values[values.length - 1] : edges[edges.length - 1];
  return h("div", { class: "distribution" }, chart,
    h("div", { class: "ends", "aria-hidden": "true" }, h("span", {}, number(low)), counts.length > 1 && h("span", {}, number(high))));
}

/** Counts upwards, what was counted to the right. */
function histogram(distribution, label, unit) {
  const { values, edges, counts } = distribution, size = { width: 520, height: 190 }, box = { left: 52, top: 10, width: 458, height: 138 };
  const most = Math.max(...counts), step = box.width / counts.length, base = box.top + box.height;
  const up = ticks(0, most, 4).filter(Number.isInteger).map((n) => s("g", { class: "tick" },
    s("line", { x1: box.left, x2: box.left + box.width, y1: base - (n / most) * box.height, y2: base - (n / most) * box.height }),
    s("text", { x: box.left - 6, y: base - (n / most) * box.height + 3.5, "text-anchor": "end" }, number(n))));
  const across = values
    ? values.map((value, i) => [box.left + (i + 0.5) * step, value])
    : ticks(edges[0], edges[edges.length - 1], 5).map((x) => [box.left + ((x - edges[0]) / (edges[edges.length - 1] - edges[0])) * box.width, x]);
  const names = across.map(([x, value]) => s("text", { x, y: base + 15, "text-anchor": "middle" }, number(value)));
  const words = [
    s("text", { class: "axis", x: box.left + box.width / 2, y: size.height - 5, "text-anchor": "middle" }, label.replace(/^(Distribution|Scores) of /, "").slice(0, 70)),
    s("text", { class: "axis", x: 11, y: box.top + box.height / 2, "text-anchor": "middle", transform: `rotate(-90 11 ${box.top + box.height / 2})` }, unit),
  ];
  const chart = s("svg", { class: "histogram", viewBox: `0 0 ${size.width} ${size.height}`, role: "img", "aria-label": barsText(distribution, label) },
    up, drawnBars(distribution, box), s("line", { class: "base", x1: box.left, x2: box.left + box.width, y1: base, y2: base }), names, words);
  return h("figure", { class: "distribution tall" }, chart, plotButtons(label, chart));
}

/** Round numbers between low and high, about `wanted` of them. */
export function ticks(low, high, wanted = 4) {
  if (!(high > low)) return [low];
  const rough = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((m) => m >= rough * (1 - 1e-9)) || power;
  const found = [];
  for (let x = Math.ceil(low / step - 1e-9) * step; x <= high + 1e-9 * step; x += step) found.push(Math.abs(x) < step * 1e-9 ? 0 : Number(x.toPrecision(12)));
  return found;
}

const PLOT = { width: 320, height: 158, left: 40, right: 8, top: 8, bottom: 30 };

/** lines: {name, points: [step, mean, half of the interval or null]}; several lie over each other, with a legend. */
export function lineChart(title, lines, options = {}) {
  const drawn = lines.map((line, colour) => ({ ...line, colour: colour % 6, points: line.points.filter(([step, mean]) => isNumber(step) && isNumber(mean)) })).filter((line) => line.points.length);
  if (!drawn.length) return null;
  const scale = scaleOf(drawn.flatMap((line) => line.points), options), { first, last, x, y, write } = scale;
  const alone = drawn.length === 1, end = drawn[0].points[drawn[0].points.length - 1];
  const readout = h("output", { class: "readout" }, alone ? `${write(end[1])} at the last step` : "");
  const label = drawn.map(({ name, points }) => `${alone ? title : name}: ${write(points[0][1])} at step ${points[0][0]}, ${write(points[points.length - 1][1])} at step ${points[points.length - 1][0]}`).join("; ");
  const svg = s("svg", { class: "line", viewBox: `0 0 ${PLOT.width} ${PLOT.height}`, role: "img", "aria-label": alone ? label : `${title}. ${label}` },
    axes(scale), drawn.map((line) => plotted(line.points, scale, line.colour)));
  if (options.zero && scale.low < 0 && scale.high > 0) svg.append(s("line", { class: "zero", x1: PLOT.left, x2: PLOT.width - PLOT.right, y1: y(0), y2: y(0) }));
  const dot = s("circle", { class: "dot", r: 3.5, visibility: "hidden" }), all = drawn.flatMap((line) => line.points.map((point) => [point, line]));
  svg.append(dot);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(), at = ((event.clientX - box.left) / box.width) * PLOT.width, up = ((event.clientY - box.top) / box.height) * PLOT.height;
    const far = ([point]) => Math.abs(x(point[0]) - at) + (alone ? 0 : 0.3 * Math.abs(y(point[1]) - up));
    const [near, line] = all.reduce((a, b) => (far(b) < far(a) ? b : a));
    fill(dot, { cx: x(near[0]), cy: y(near[1]), visibility: "visible" }, []);
    readout.textContent = `${alone ? "" : `${line.name}, `}step ${near[0]}: ${write(near[1])}${near[2] ? ` ± ${write(near[2])}` : ""}`;
  });
  const legend = !alone && h("div", { class: "lines-legend" }, drawn.map((line) => h("span", { class: `line-${line.colour}` }, h("i", {}), line.name)));
  return h("figure", { class: "plot", "data-steps": `${first} ${last}` },
    h("figcaption", {}, h("span", {}, h("strong", {}, title), options.note && h("small", {}, ` ${options.note}`)), readout), svg, h("div", { class: "under" }, legend || h("span", {}), plotButtons(title, svg)));
}

function scaleOf(points, options) {
  const half = (point) => point[2] || 0;
  let low = Math.min(...points.map((p) => p[1] - half(p))), high = Math.max(...points.map((p) => p[1] + half(p)));
  if (options.zero) [low, high] = [Math.min(0, low), Math.max(0, high)];
  if (high - low < 1e-9) [low, high] = [low - 0.5 * Math.max(Math.abs(low), 0.1), high + 0.5 * Math.max(Math.abs(high), 0.1)];
  const pad = 0.06 * (high - low);
  [low, high] = [options.percent ? Math.max(0, low - pad) : low - pad, high + pad];
  const first = Math.min(...points.map((p) => p[0])), last = Math.max(...points.map((p) => p[0]));
  const x = (step) => (last === first ? (PLOT.left + PLOT.width - PLOT.right) / 2
    : PLOT.left + ((step - first) / (last - first)) * (PLOT.width - PLOT.left - PLOT.right));
  const y = (value) => PLOT.top + ((high - value) / (high - low)) * (PLOT.height - PLOT.top - PLOT.bottom);
  const write = options.percent ? (value) => percent(value, value > 0 && value < 0.1 ? 1 : 0) : number;
  return { low, high, first, last, x, y, write };
}

function axes({ low, high, first, last, x, y, write }) {
  const across = ticks(low, high).map((value) => s("g", { class: "tick" },
    s("line", { x1: PLOT.left, x2: PLOT.width - PLOT.right, y1: y(value), y2: y(value) }),
    s("text", { x: PLOT.left - 5, y: y(value) + 3.5, "text-anchor": "end" }, write(value))));
  const below = (last === first ? [first] : ticks(first, last, 6).filter(Number.isInteger)).map((step) => s("text", {
    class: "step", x: x(step), y: PLOT.height - 17, "text-anchor": x(step) > PLOT.width - 24 ? "end" : "middle" }, count(step)));
  return [...across, ...below, s("text", { class: "axis", x: (PLOT.left + PLOT.width - PLOT.right) / 2, y: PLOT.height - 4, "text-anchor": "middle" }, "step")];
}

function plotted(shown, { low, high, x, y }, colour) {
  const edge = (p, sign) => [x(p[0]), y(Math.max(low, Math.min(high, p[1] + sign * (p[2] || 0))))];
  const band = [...shown.map((p) => edge(p, 1)), ...shown.slice().reverse().map((p) => edge(p, -1))];
  const path = (points) => points.map(([a, b], i) => `${i ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`).join("");
  const parts = [s("path", { class: "band", d: `${path(band)}Z` }), s("path", { class: "curve", d: path(shown.map((p) => [x(p[0]), y(p[1])])) })];
  if (shown.length <= 30) parts.push(...shown.map((p) => s("circle", { class: "point", cx: x(p[0]), cy: y(p[1]), r: 2 })));
  return s("g", { class: `series line-${colour}` }, parts);
}

/** rows: {name, value, half, note}; values around 0, drawn between −most and most. */
export function whiskers(rows, most, note) {
  const place = (value) => `${(50 + 48 * Math.max(-1, Math.min(1, value / most))).toFixed(2)}%`;
  return h("div", { class: "whiskers", role: "list" }, rows.map(({ name, value, half, note: own }) => {
    const text = isNumber(value) ? `${signed(value)}${isNumber(half) ? ` ± ${half.toFixed(2)}` : ""}` : "–";
    const track = h("span", { class: "track", "aria-hidden": "true" }, h("i", { class: "middle" }));
    if (isNumber(value)) {
      if (isNumber(half)) track.append(h("i", { class: "span", "--from": place(value - half), "--to": place(value + half) }));
      track.append(h("i", { class: "mark", "--at": place(value) }));
    }
    return h("div", { class: "whisker", role: "listitem" },
      h("span", { class: "name" }, name, own && h("small", {}, own)), track, h("span", { class: "value" }, text));
  }), note && h("p", { class: "muted" }, note));
}

/** A share as a bar with its number. */
export function meter(share, text, kind) {
  const at = isNumber(share) ? `${(100 * Math.max(0, Math.min(1, share))).toFixed(1)}%` : "0%";
  return h("span", { class: kind ? `meter ${kind}` : "meter", "--at": at }, h("span", {}, text === undefined ? percent(share) : text));
}
