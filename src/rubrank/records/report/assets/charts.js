// Charts: bars, a line with its interval, and rows of values with whiskers. Every one carries its numbers as text, too.

/** Bars of a distribution; see report/distribution.py. */
function bars(distribution, label, tall) {
  const { counts, values, edges } = distribution;
  if (!counts.length) return h("span", { class: "muted" }, "no scores");
  const width = 120, height = tall ? 90 : 34, most = Math.max(...counts), step = width / counts.length;
  const gap = Math.min(2, step * 0.2), total = sum(counts);
  const nameOf = (i) => (values ? number(values[i]) : `${number(edges[i])} to ${number(edges[i + 1])}`);
  const drawn = counts.map((n, i) => {
    const size = n ? Math.max(1.5, (n / most) * height) : 0;
    return s("rect", { x: i * step + gap / 2, y: height - size, width: step - gap, height: size },
      s("title", {}, `${nameOf(i)}: ${count(n)} (${percent(n / total, 1)})`));
  });
  const text = `${label}: ${counts.map((n, i) => `${nameOf(i)}: ${percent(n / total)}`).join(", ")}`;
  const chart = s("svg", { class: "bars", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": text }, drawn);
  const low = values ? values[0] : edges[0], high = values ? values[values.length - 1] : edges[edges.length - 1];
  return h("div", { class: tall ? "distribution tall" : "distribution" }, chart,
    h("div", { class: "ends", "aria-hidden": "true" }, h("span", {}, number(low)), counts.length > 1 && h("span", {}, number(high))));
}

/** Round numbers between low and high, about `wanted` of them. */
function ticks(low, high, wanted = 4) {
  const rough = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((m) => m >= rough) || power;
  const found = [];
  for (let x = Math.ceil(low / step - 1e-9) * step; x <= high + 1e-9 * step; x += step) found.push(Math.abs(x) < step * 1e-9 ? 0 : x);
  return found;
}

const PLOT = { width: 320, height: 150, left: 40, right: 8, top: 8, bottom: 22 };

/** points: [step, mean, half of the interval or null]; steps may be missing, but not only one. */
function lineChart(title, points, options = {}) {
  const shown = points.filter(([step, mean]) => isNumber(step) && isNumber(mean));
  const half = (point) => point[2] || 0;
  let low = Math.min(...shown.map((p) => p[1] - half(p))), high = Math.max(...shown.map((p) => p[1] + half(p)));
  if (options.zero) [low, high] = [Math.min(0, low), Math.max(0, high)];
  if (high - low < 1e-9) [low, high] = [low - 0.5 * Math.max(Math.abs(low), 0.1), high + 0.5 * Math.max(Math.abs(high), 0.1)];
  const pad = 0.06 * (high - low);
  [low, high] = [options.percent ? Math.max(0, low - pad) : low - pad, high + pad];
  const first = shown[0][0], last = shown[shown.length - 1][0];
  const x = (step) => (last === first ? (PLOT.left + PLOT.width - PLOT.right) / 2
    : PLOT.left + ((step - first) / (last - first)) * (PLOT.width - PLOT.left - PLOT.right));
  const y = (value) => PLOT.top + ((high - value) / (high - low)) * (PLOT.height - PLOT.top - PLOT.bottom);
  const write = options.percent ? (value) => percent(value, value > 0 && value < 0.1 ? 1 : 0) : number;
  const readout = h("output", { class: "readout" }, `${write(shown[shown.length - 1][1])} at the last step`);
  const svg = s("svg", {
    class: "line", viewBox: `0 0 ${PLOT.width} ${PLOT.height}`, role: "img",
    "aria-label": `${title}: ${write(shown[0][1])} at step ${first}, ${write(shown[shown.length - 1][1])} at step ${last}`,
  }, axes(low, high, first, last, x, y, write), plotted(shown, x, y));
  if (options.zero && low < 0 && high > 0) svg.append(s("line", { class: "zero", x1: PLOT.left, x2: PLOT.width - PLOT.right, y1: y(0), y2: y(0) }));
  const dot = s("circle", { class: "dot", r: 3.5, visibility: "hidden" });
  svg.append(dot);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(), at = ((event.clientX - box.left) / box.width) * PLOT.width;
    const near = shown.reduce((a, b) => (Math.abs(x(b[0]) - at) < Math.abs(x(a[0]) - at) ? b : a));
    fill(dot, { cx: x(near[0]), cy: y(near[1]), visibility: "visible" }, []);
    readout.textContent = `step ${near[0]}: ${write(near[1])}${near[2] ? ` ± ${write(near[2])}` : ""}`;
  });
  return h("figure", { class: "plot" }, h("figcaption", {}, h("span", {}, h("strong", {}, title), options.note && h("small", {}, ` ${options.note}`)), readout), svg);
}

function axes(low, high, first, last, x, y, write) {
  const across = ticks(low, high).map((value) => s("g", { class: "tick" },
    s("line", { x1: PLOT.left, x2: PLOT.width - PLOT.right, y1: y(value), y2: y(value) }),
    s("text", { x: PLOT.left - 5, y: y(value) + 3.5, "text-anchor": "end" }, write(value))));
  const ends = (last === first ? [first] : [first, last]).map((step, i, all) => s("text", {
    class: "step", x: x(step), y: PLOT.height - 6, "text-anchor": all.length === 1 ? "middle" : i ? "end" : "start",
  }, `step ${count(step)}`));
  return [...across, ...ends];
}

function plotted(shown, x, y) {
  const band = [...shown.map((p) => [x(p[0]), y(p[1] + (p[2] || 0))]), ...shown.slice().reverse().map((p) => [x(p[0]), y(p[1] - (p[2] || 0))])];
  const path = (points) => points.map(([a, b], i) => `${i ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`).join("");
  const parts = [s("path", { class: "band", d: `${path(band)}Z` }), s("path", { class: "curve", d: path(shown.map((p) => [x(p[0]), y(p[1])])) })];
  if (shown.length <= 30) parts.push(...shown.map((p) => s("circle", { class: "point", cx: x(p[0]), cy: y(p[1]), r: 2 })));
  return parts;
}

/** rows: {name, value, half, note}; values around 0, drawn between −most and most. */
function whiskers(rows, most, note) {
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
function meter(share, text, kind) {
  const at = isNumber(share) ? `${(100 * Math.max(0, Math.min(1, share))).toFixed(1)}%` : "0%";
  return h("span", { class: kind ? `meter ${kind}` : "meter", "--at": at }, h("span", {}, text === undefined ? percent(share) : text));
}
