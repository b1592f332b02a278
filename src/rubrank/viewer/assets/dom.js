// Elements. Everything that comes from a record enters as a text node: nothing is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** h("p", {class: "note"}, "3 < 4", h("b", {}, "!")): an element; `on…` are listeners, `--x` are style variables. */
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** The same for an element of SVG. */
export function s(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

/** Set attributes, listeners and style variables of an element, and append children. Empty values are skipped. */
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

/** Append children to an element. Unlike `append`, it skips false, null and undefined instead of writing them as text. */
export const add = (element, ...children) => fill(element, null, children);

export const byId = (id) => document.getElementById(id);

export function replaceChildren(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
}

/** A short note in a rounded box; kind: "bad", "warn", "info" or "plain" sets its colour. */
export function chip(text, kind, title) {
  return h("span", { class: kind ? `chip ${kind}` : "chip", title }, text);
}

/** A figure with its name and a note below. */
export function tile(label, value, note) {
  return h("div", { class: "tile" }, h("dt", {}, label), h("dd", {}, value, note && h("small", {}, note)));
}

/** A labelled <select>; `options` are [value, text]. */
export function choice(label, options, value, change) {
  const select = h("select", { "aria-label": label, onchange: (event) => change(event.target.value) },
    options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)));
  return h("label", { class: "field" }, h("span", {}, label), select);
}

/** A name such as SubjectFirst or word_count, which may be wrapped between its words. */
export function nameParts(name) {
  const parts = name.split(/(?<=[a-z0-9])(?=[A-Z])|(?<=[_./-])/);
  return parts.flatMap((part, i) => (i ? [h("wbr", {}), part] : [part]));
}

/** A table that may be wider than its place: it scrolls, also by keyboard, and says so while something is hidden. */
export function scrolled(label, table) {
  const hint = h("p", { class: "scroll-hint", "aria-hidden": "true", hidden: true }, "scroll sideways for more →");
  const area = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table: ${label}` }, table);
  const update = () => {
    const hiddenRight = area.scrollWidth - area.clientWidth - area.scrollLeft;
    hint.hidden = hiddenRight < 8;
    area.classList.toggle("more-right", hiddenRight >= 8);
    area.classList.toggle("more-left", area.scrollLeft > 8);
  };
  area.addEventListener("scroll", update, { passive: true });
  new ResizeObserver(update).observe(area);
  return h("div", { class: "scroll-box" }, hint, area);
}

const THEMES = ["auto", "light", "dark"];

/** A button that goes from the system's theme to light, to dark, and round again. */
export function setUpTheme(button) {
  // A page that was opened from disk may be forbidden to keep anything.
  const readTheme = () => {
    try {
      return localStorage.getItem("rubrank-theme");
    } catch {
      return null;
    }
  };
  const keepTheme = (name) => {
    try {
      localStorage.setItem("rubrank-theme", name);
    } catch {
      // The theme is then forgotten when the page is closed.
    }
  };
  const apply = (name) => {
    document.documentElement.dataset.theme = name;
    button.textContent = `Theme: ${name}`;
    button.setAttribute("aria-label", `Theme: ${name}. Change it`);
  };
  const storedTheme = readTheme();
  let theme = THEMES.includes(storedTheme) ? storedTheme : "auto";
  apply(theme);
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    keepTheme(theme);
    apply(theme);
  });
}
