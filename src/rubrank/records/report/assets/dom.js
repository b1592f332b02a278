// Elements, numbers as text. Everything that comes from a record enters as a text node: nothing is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** h("p", {class: "note"}, "3 < 4", h("b", {}, "!")): an element; `on…` are listeners, `--x` are style variables. */
function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

function s(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [key, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key.startsWith("--")) element.style.setProperty(key, value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

/** Children at the end of an element; what is false or missing is left out, which `append` would write. */
const add = (element, ...children) => fill(element, null, children);

const byId = (id) => document.getElementById(id);

function replaceChildren(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
}

const count = (n) => n.toLocaleString("en-US");
const isNumber = (x) => typeof x === "number" && Number.isFinite(x);
/** With a true minus, and none before zero. */
const written = (x, digits) => (Number(x.toFixed(digits)) < 0 ? "−" : "") + Math.abs(x).toFixed(digits);
const percent = (x, digits = 0) => (isNumber(x) ? `${written(100 * x, digits)}%` : "–");
const signed = (x, digits = 2) => (isNumber(x) ? `${Number(x.toFixed(digits)) > 0 ? "+" : ""}${written(x, digits)}` : "–");

/** A number in about four characters. */
function number(x) {
  if (!isNumber(x)) return "–";
  if (Number.isInteger(x) && Math.abs(x) < 1e6) return count(x).replace("-", "−");
  return String(Number(x.toPrecision(3))).replace("-", "−");
}

const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

function chip(text, kind) {
  return h("span", { class: kind ? `chip ${kind}` : "chip" }, text);
}

/** A labelled <select>; `options` are [value, text]. */
function choice(label, options, value, change) {
  const select = h("select", { onchange: (event) => change(event.target.value) },
    options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)));
  return h("label", { class: "field" }, h("span", {}, label), select);
}
