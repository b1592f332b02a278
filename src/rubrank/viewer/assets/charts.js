// Charts: bars with axes, lines with their intervals, rows of values with whiskers. Every chart also has its numbers as text.

import { fill, h, s } from "./dom.js";
import { plotButtons } from "./save.js";
import { count, isNumber, number, percent, signed, sum } from "./numbers.js";

// ---------------------------------------------------------------------------------------------------- distributions

/** Bars of a distribution: {counts, values} or {counts, edges}, from rubrank/viewer/figures.py. Tall bars have axes. */
export function bars(distribution, label, tall, unit = "rollouts") {
  if (!distribution.counts.length) return h("span", { class: "muted" }, "no scores");
  return tall ? histogram(distribution, label, unit) : smallBars(distribution, label);
}

function barName({ values, edges }, i) {
  return values ? number(values[i]) : `${number(edges[i])} to ${number(edges[i + 1])}`;
}

/** The distribution in words, for screen readers. */
function describeBars(distribution, label) {
  const total = sum(distribution.counts);
  const parts = distribution.counts.map((n, i) => `${barName(distribution, i)}: ${percent(n / total)}`);
  return `${label}: ${parts.join(", ")}`;
}

/** The bars themselves, inside `box`. A bar that is not empty is at least 1.5 high, so that it can be seen. */
function drawBars({ counts, ...names }, box) {
  const most = Math.max(...counts);
  const total = sum(counts);
  const step = box.width / counts.length;
  const gap = Math.min(2, step * 0.2);
  return counts.map((n, i) => {
    const height = n ? Math.max(1.5, (n / most) * box.height) : 0;
    const place = { x: box.left + i * step + gap / 2, y: box.top + box.height - height };
    const title = `${barName(names, i)}: ${count(n)} (${percent(n / total, 1)})`;
    return s("rect", { ...place, width: step - gap, height }, s("title", {}, title));
  });
}

function smallBars(distribution, label) {
  const box = { left: 0, top: 0, width: 120, height: 34 };
  const props = { class: "bars", viewBox: "0 0 120 34", preserveAspectRatio: "none", role: "img" };
  const chart = s("svg", { ...props, "aria-label": describeBars(distribution, label) }, drawBars(distribution, box));
  const ends = distribution.values || distribution.edges;
  const low = ends[0];
  const high = ends[ends.length - 1];
  return h("div", { class: "distribution" }, chart,
    h("div", { class: "ends", "aria-hidden": "true" },
      h("span", {}, number(low)),
      distribution.counts.length > 1 && h("span", {}, number(high))));
}

/** Bars with counts on the vertical axis and scores on the horizontal one. */
function histogram(distribution, label, unit) {
  const { values, edges, counts } = distribution;
  const size = { width: 520, height: 190 };
  const box = { left: 52, top: 10, width: 458, height: 138 };
  const right = box.left + box.width;
  const base = box.top + box.height;
  const middle = { x: box.left + box.width / 2, y: box.top + box.height / 2 };
  const most = Math.max(...counts);

  const gridLines = ticks(0, most, 4).filter(Number.isInteger).map((n) => {
    const y = base - (n / most) * box.height;
    return s("g", { class: "tick" },
      s("line", { x1: box.left, x2: right, y1: y, y2: y }),
      s("text", { x: box.left - 6, y: y + 3.5, "text-anchor": "end" }, number(n)));
  });

  let marks; // [x, value] of the numbers below the axis
  if (values) {
    const step = box.width / counts.length;
    marks = values.map((value, i) => [box.left + (i + 0.5) * step, value]);
  } else {
    const low = edges[0];
    const high = edges[edges.length - 1];
    marks = ticks(low, high, 5).map((value) => [box.left + ((value - low) / (high - low)) * box.width, value]);
  }
  const numbers = marks.map(([x, value]) => s("text", { x, y: base + 15, "text-anchor": "middle" }, number(value)));

  const subject = label.replace(/^(Distribution|Scores) of /, "").slice(0, 70);
  const axisNames = [
    s("text", { class: "axis", x: middle.x, y: size.height - 5, "text-anchor": "middle" }, subject),
    s("text", { class: "axis", x: 11, y: middle.y, "text-anchor": "middle", transform: `rotate(-90 11 ${middle.y})` }, unit),
  ];
  const props = { class: "histogram", viewBox: `0 0 ${size.width} ${size.height}`, role: "img" };
  const chart = s("svg", { ...props, "aria-label": describeBars(distribution, label) },
    gridLines,
    drawBars(distribution, box),
    s("line", { class: "base", x1: box.left, x2: right, y1: base, y2: base }),
    numbers,
    axisNames);
  return h("figure", { class: "distribution tall" }, chart, plotButtons(label, chart));
}

/** Round numbers between low and high, about `wanted` of them. */
function ticks(low, high, wanted = 4) {
  if (!(high > low)) return [low];
  const tolerance = 1e-9; // relative to a step: sums of steps are not exact
  const roughStep = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(roughStep));
  const step = [1, 2, 5, 10].map((m) => m * power).find((m) => m >= roughStep * (1 - tolerance)) || power;
  const values = [];
  for (let x = Math.ceil(low / step - tolerance) * step; x <= high + tolerance * step; x += step) {
    values.push(Math.abs(x) < step * tolerance ? 0 : Number(x.toPrecision(12)));
  }
  return values;
}

// ------------------------------------------------------------------------------------------------------- line charts

const PLOT = { width: 320, height: 158, left: 40, right: 8, top: 8, bottom: 30 };
const MOST_MARKED_POINTS = 30; // of a line; more would hide it
const SHORTEST_DRAG = 8; // pixels; less is a click

/**
 * One or several lines over the steps of a run; several share the axes and get a legend.
 * lines: {name, points: [step, mean, half of the interval or null], colour: number of the run}.
 * options: {percent, zero (show 0), note, smooth (points that are averaged), range: [from, to] in steps,
 *           onStep(step): a point was clicked, onZoom(from, to): a range was drawn with the pointer}.
 */
export function lineChart(title, lines, options = {}) {
  const [from, to] = options.range || [-Infinity, Infinity];
  const isShown = ([step, mean]) => isNumber(step) && isNumber(mean) && step >= from && step <= to;
  const drawn = lines
    .map((line, i) => ({ ...line, colour: (line.colour ?? i) % 6, measured: line.points.filter(isShown) }))
    .filter((line) => line.measured.length)
    .map((line) => ({ ...line, points: smoothPoints(line.measured, options.smooth) }));
  if (!drawn.length) return null;
  const isSmooth = options.smooth > 1;

  const scale = makeScale(drawn.flatMap((line) => [...line.measured, ...line.points]), options);
  const { first, last, y, write } = scale;
  const isSingle = drawn.length === 1;

  const descriptions = drawn.map(({ name, points }) => {
    const start = points[0];
    const end = points[points.length - 1];
    return `${isSingle ? title : name}: ${write(start[1])} at step ${start[0]}, ${write(end[1])} at step ${end[0]}`;
  });
  const label = descriptions.join("; ");
  const svg = s("svg",
    {
      class: options.onStep ? "line clickable" : "line",
      viewBox: `0 0 ${PLOT.width} ${PLOT.height}`,
      role: "img",
      "aria-label": isSingle ? label : `${title}. ${label}`,
    },
    drawAxes(scale),
    isSmooth && drawn.map((line) => drawLine(line.measured, scale, `${line.colour} measured`)),
    drawn.map((line) => drawLine(line.points, scale, line.colour)));
  if (options.zero && scale.low < 0 && scale.high > 0) {
    svg.append(s("line", { class: "zero", x1: PLOT.left, x2: PLOT.width - PLOT.right, y1: y(0), y2: y(0) }));
  }

  const lastPoint = drawn[0].points[drawn[0].points.length - 1];
  const readout = h("output", { class: "readout" }, isSingle ? `${write(lastPoint[1])} at the last step` : "");
  followPointer(svg, readout, drawn, scale, options);

  const heading = h("span", {}, h("strong", {}, title), options.note && h("small", {}, ` ${options.note}`));
  const legend = isSingle
    ? h("span", {})
    : h("div", { class: "lines-legend" },
      drawn.map((line) => h("span", { class: `line-${line.colour}` }, h("i", {}), line.name)));
  return h("figure", { class: "plot", "data-steps": `${first} ${last}` },
    h("figcaption", {}, heading, readout),
    svg,
    h("div", { class: "under" }, legend, plotButtons(title, svg)));
}

/** The mean of `width` neighbouring points, fewer at the ends. It has no interval: that of single points would mislead. */
function smoothPoints(points, width) {
  if (!(width > 1)) return points;
  const reach = Math.floor(width / 2);
  return points.map(([step], i) => {
    const near = points.slice(Math.max(0, i - reach), i + reach + 1);
    return [step, sum(near.map(([, mean]) => mean)) / near.length, null];
  });
}

/** Mark the point nearest to the pointer and write its numbers into `readout`; a click opens its step, a drag zooms. */
function followPointer(svg, readout, lines, { x, y, write, stepAt }, options) {
  const isSingle = lines.length === 1;
  const dot = s("circle", { class: "dot", r: 3.5, visibility: "hidden" });
  const selection = s("rect", { class: "selection", y: PLOT.top, height: PLOT.height - PLOT.top - PLOT.bottom, visibility: "hidden" });
  svg.append(selection, dot);
  const candidates = lines.flatMap((line) => line.points.map((point) => [point, line]));
  let dragStart = null; // in the plot's coordinates
  let wasDragged = false; // the click at the end of a drag opens no step
  const clampToPlot = (place) => Math.min(PLOT.width - PLOT.right, Math.max(PLOT.left, place));

  const placeOf = (event) => {
    const box = svg.getBoundingClientRect();
    return [
      ((event.clientX - box.left) / box.width) * PLOT.width,
      ((event.clientY - box.top) / box.height) * PLOT.height,
    ];
  };
  const nearest = (event) => {
    const [pointerX, pointerY] = placeOf(event);
    // The step counts most; the height only chooses between lines.
    const distance = ([point]) =>
      Math.abs(x(point[0]) - pointerX) + (isSingle ? 0 : 0.3 * Math.abs(y(point[1]) - pointerY));
    return candidates.reduce((a, b) => (distance(b) < distance(a) ? b : a));
  };

  svg.addEventListener("pointermove", (event) => {
    const [[step, mean, half], line] = nearest(event);
    fill(dot, { cx: x(step), cy: y(mean), visibility: "visible" }, []);
    const name = isSingle ? "" : `${line.name}, `;
    const interval = half ? ` ± ${write(half)}` : "";
    readout.textContent = `${name}step ${step}: ${write(mean)}${interval}`;
    if (dragStart !== null && options.onZoom) {
      const [pointerX] = placeOf(event);
      const end = clampToPlot(pointerX);
      fill(selection, { x: Math.min(end, dragStart), width: Math.abs(end - dragStart), visibility: "visible" }, []);
    }
  });
  svg.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "mouse" || event.button !== 0 || !options.onZoom) return;
    [dragStart] = placeOf(event);
    wasDragged = false;
    svg.setPointerCapture(event.pointerId); // a drag may end outside the chart
  });
  svg.addEventListener("pointercancel", () => {
    dragStart = null;
    selection.setAttribute("visibility", "hidden");
  });
  svg.addEventListener("pointerup", (event) => {
    if (dragStart === null) return;
    const [start, end] = [dragStart, placeOf(event)[0]];
    dragStart = null;
    selection.setAttribute("visibility", "hidden");
    wasDragged = Math.abs(end - start) >= SHORTEST_DRAG;
    if (wasDragged) {
      const steps = [start, end].map((place) => stepAt(clampToPlot(place))).sort((a, b) => a - b);
      options.onZoom(Math.floor(steps[0]), Math.ceil(steps[1]));
    }
  });
  svg.addEventListener("click", (event) => {
    if (!wasDragged && options.onStep) {
      const [[step], line] = nearest(event);
      options.onStep(step, line);
    }
  });
}

/** Ranges of the two axes, x(step) and y(value) in the plot's coordinates, and write(value) as text. */
function makeScale(points, options) {
  const steps = points.map(([step]) => step);
  const first = Math.min(...steps);
  const last = Math.max(...steps);
  let low = Math.min(...points.map(([, mean, half]) => mean - (half || 0)));
  let high = Math.max(...points.map(([, mean, half]) => mean + (half || 0)));
  if (options.zero) {
    low = Math.min(0, low);
    high = Math.max(0, high);
  }
  if (high - low < 1e-9) { // all values are equal: show some room around them
    low -= 0.5 * Math.max(Math.abs(low), 0.1);
    high += 0.5 * Math.max(Math.abs(high), 0.1);
  }
  const padding = 0.06 * (high - low);
  low -= padding;
  high += padding;
  if (options.notNegative) low = Math.max(0, low);
  if (options.percent) { // a share cannot leave 0…100%, but its interval can
    low = Math.max(0, low);
    high = Math.min(1, high);
  }

  const width = PLOT.width - PLOT.left - PLOT.right;
  const height = PLOT.height - PLOT.top - PLOT.bottom;
  const x = (step) => PLOT.left + (last === first ? 0.5 : (step - first) / (last - first)) * width;
  const y = (value) => PLOT.top + ((high - value) / (high - low)) * height;
  const stepAt = (place) => first + ((place - PLOT.left) / width) * (last - first);
  const write = options.percent ? (value) => percent(value, value > 0 && value < 0.1 ? 1 : 0) : number;
  return { low, high, first, last, x, y, write, stepAt };
}

function drawAxes({ low, high, first, last, x, y, write }) {
  const gridLines = ticks(low, high).map((value) => s("g", { class: "tick" },
    s("line", { x1: PLOT.left, x2: PLOT.width - PLOT.right, y1: y(value), y2: y(value) }),
    s("text", { x: PLOT.left - 5, y: y(value) + 3.5, "text-anchor": "end" }, write(value))));
  const steps = last === first ? [first] : ticks(first, last, 6).filter(Number.isInteger);
  const stepNumbers = steps.map((step) => {
    const anchor = x(step) > PLOT.width - 24 ? "end" : "middle"; // the last number must not be cut off
    return s("text", { class: "step", x: x(step), y: PLOT.height - 17, "text-anchor": anchor }, count(step));
  });
  const middle = (PLOT.left + PLOT.width - PLOT.right) / 2;
  const axisName = s("text", { class: "axis", x: middle, y: PLOT.height - 4, "text-anchor": "middle" }, "step");
  return [...gridLines, ...stepNumbers, axisName];
}

/** One line with the band of its intervals; a short one also with its points. */
function drawLine(points, { low, high, x, y }, colour) {
  const clamp = (value) => Math.max(low, Math.min(high, value));
  const path = (places) => places.map(([a, b], i) => `${i ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`).join("");
  const upper = points.map(([step, mean, half]) => [x(step), y(clamp(mean + (half || 0)))]);
  const lower = points.map(([step, mean, half]) => [x(step), y(clamp(mean - (half || 0)))]);
  const curve = points.map(([step, mean]) => [x(step), y(mean)]);
  const parts = [
    s("path", { class: "band", d: `${path([...upper, ...lower.reverse()])}Z` }),
    s("path", { class: "curve", d: path(curve) }),
  ];
  if (points.length <= MOST_MARKED_POINTS) {
    parts.push(...curve.map(([cx, cy]) => s("circle", { class: "point", cx, cy, r: 2 })));
  }
  return s("g", { class: `series line-${colour}` }, parts);
}

// ------------------------------------------------------------------------------------------------ whiskers and meters

/** rows: {name, value, half of the interval, note}. Values are drawn on a track from −most to most, with 0 in the middle. */
export function whiskers(rows, most, note) {
  const place = (value) => `${(50 + 48 * Math.max(-1, Math.min(1, value / most))).toFixed(2)}%`;
  const items = rows.map((row) => {
    const { name, value, half } = row;
    const track = h("span", { class: "track", "aria-hidden": "true" }, h("i", { class: "middle" }));
    let text = "–";
    if (isNumber(value)) {
      text = signed(value);
      if (isNumber(half)) {
        text += ` ± ${half.toFixed(2)}`;
        track.append(h("i", { class: "span", "--from": place(value - half), "--to": place(value + half) }));
      }
      track.append(h("i", { class: "mark", "--at": place(value) }));
    }
    return h("div", { class: "whisker", role: "listitem" },
      h("span", { class: "name" }, name, row.note && h("small", {}, row.note)),
      track,
      h("span", { class: "value" }, text));
  });
  return h("div", { class: "whiskers", role: "list" }, items, note && h("p", { class: "muted" }, note));
}

/** A share as a bar with its number. */
export function meter(share, text, kind) {
  const at = isNumber(share) ? `${(100 * Math.max(0, Math.min(1, share))).toFixed(1)}%` : "0%";
  return h("span", { class: kind ? `meter ${kind}` : "meter", "--at": at }, h("span", {}, text ?? percent(share)));
}

/** rows: {name, value, low, high} from 0 to `most`; a bar with its 95% interval as a line. */
export function intervalBars(rows, most, unit = "") {
  const place = (value) => `${((100 * Math.max(0, Math.min(most, value))) / most).toFixed(2)}%`;
  const items = rows.map(({ name, value, low, high }) => {
    const hasInterval = isNumber(low) && isNumber(high);
    const text = isNumber(value) ? `${value.toFixed(1)}${unit}` : "–";
    const interval = hasInterval ? ` ${low.toFixed(1)} to ${high.toFixed(1)}` : "";
    return h("div", { class: "interval-bar", role: "listitem" },
      h("span", { class: "name" }, name),
      h("span", { class: "bar-track", "aria-hidden": "true" },
        isNumber(value) && h("i", { class: "bar-value", "--at": place(value) }),
        hasInterval && h("i", { class: "bar-span", "--from": place(low), "--to": place(high) })),
      h("span", { class: "value" }, h("b", {}, text), h("small", {}, interval)));
  });
  return h("div", { class: "interval-bars", role: "list" }, items);
}
