// Elements. Everything that comes from a record enters as a text node: nothing is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** h("p", {class: "note"}, "3 < 4", h("b", {}, "!")): an element; `on…` are listeners, `--x` are style variables. */
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function s(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

export function fill(element, props, children) {
  for (const [key, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key.startsWith("--")) element.style.setProperty(key, value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

/** Children at the end of an element; what is false or missing is left out, which `append` would write. */
export const add = (element, ...children) => fill(element, null, children);

export const byId = (id) => document.getElementById(id);

export function replaceChildren(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
}

export function chip(text, kind, title) {
  return h("span", { class: kind ? `chip ${kind}` : "chip", title }, text);
}

/** A figure with its name and a note below. */
export function tile(label, value, note) {
  return h("div", { class: "tile" }, h("dt", {}, label), h("dd", {}, value, note && h("small", {}, note)));
}

/** A labelled <select>; `options` are [value, text]. */
export function choice(label, options, value, change) {
  const select = h("select", { onchange: (event) => change(event.target.value) },
    options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)));
  return h("label", { class: "field" }, h("span", {}, label), select);
}

/** A name in pieces that may stand on lines of their own: SubjectFirst, word_count; never cut inside of a word. */
export function nameParts(name) {
  const parts = name.split(/(?<=[a-z0-9])(?=[A-Z])|(?<=[_./-])/);
  return parts.flatMap((part, i) => (i ? [h("wbr", {}), part] : [part]));
}

/** A table that may be wider than the page, and can be scrolled by keyboard. */
export const scrolled = (label, table) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, table);

const THEMES = ["auto", "light", "dark"];

/** A button that goes from the system's theme to light, to dark, and round again. */
export function setUpTheme(button) {
  const kept = () => { try { return localStorage.getItem("rubrank-theme"); } catch { return null; } };
  const keep = (theme) => { try { localStorage.setItem("rubrank-theme", theme); } catch { /* pages from disk may not keep anything */ } };
  const apply = (theme) => {
    document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
    button.setAttribute("aria-label", `Theme: ${theme}. Change it`);
  };
  let theme = THEMES.includes(kept()) ? kept() : "auto";
  apply(theme);
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    keep(theme);
    apply(theme);
  });
}
