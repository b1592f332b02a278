// Tables whose cells are coloured from −1 (orange) over 0 to 1 (blue), and sortable tables.

import { h, replaceChildren, scrolled } from "./dom.js";
import { count, isNumber, signed } from "./numbers.js";

/** rows × columns of numbers from −1 to 1; `title(i, j)` says more about a cell. */
export function heatTable({ caption, rows, columns, cell, title, corner = "", format = signed, columnTitles = columns }) {
  const head = h("tr", {}, h("th", { scope: "col", class: "corner" }, corner),
    columns.map((name, j) => h("th", { scope: "col", title: columnTitles[j] }, h("span", {}, name))));
  const body = rows.map((name, i) => h("tr", {}, h("th", { scope: "row", title: name }, name),
    columns.map((_, j) => {
      const value = cell(i, j);
      if (!isNumber(value)) return h("td", { class: "none", title: title && title(i, j) }, "–");
      const strength = `${Math.round(78 * Math.min(1, Math.abs(value)))}%`;
      return h("td", { class: value < 0 ? "minus" : "plus", "--heat": strength, title: title && title(i, j) }, format(value));
    })));
  const table = h("table", { class: columns.length > 6 ? "heat many" : "heat" },
    h("caption", { class: "quiet-caption" }, caption), h("thead", {}, head), h("tbody", {}, body));
  return scrolled(caption, table);
}

/** columns: {title, key(row) to sort by, cell(row) → child, class, hint}; sorts on a click on the head. */
export function sortableTable({ caption, columns, rows, detail, most = 40, sorted = null }) {
  const state = { column: sorted, down: true, all: rows.length <= most };
  const body = h("tbody", {}), more = h("button", { type: "button", onclick: () => { state.all = true; draw(); } });
  const heads = columns.map((column) => {
    const button = column.key && h("button", { type: "button", title: column.hint, onclick: () => sortBy(column) }, column.title);
    return h("th", { scope: "col", class: column.class, title: column.hint }, button || column.title);
  });
  function sortBy(column) {
    state.down = state.column === column ? !state.down : true;
    state.column = column;
    draw();
  }
  function ordered() {
    if (!state.column) return rows;
    const key = state.column.key, sign = state.down ? -1 : 1;
    const rank = (value) => (value === null || value === undefined ? [1, 0] : [0, value]);
    return rows.slice().sort((a, b) => {
      const [goneA, x] = rank(key(a)), [goneB, y] = rank(key(b));
      return goneA - goneB || sign * (typeof x === "string" ? -x.localeCompare(y) : x - y);
    });
  }
  function draw() {
    heads.forEach((head, i) => head.setAttribute("aria-sort", columns[i] === state.column ? (state.down ? "descending" : "ascending") : "none"));
    const shown = ordered().slice(0, state.all ? rows.length : most);
    replaceChildren(body, shown.flatMap((row) => rowOf(row)));
    more.hidden = state.all;
    more.textContent = `Show all ${count(rows.length)}`;
  }
  function rowOf(row) {
    const cells = columns.map((column, i) => h(i ? "td" : "th", { scope: i ? null : "row", class: column.class, "data-label": column.title }, column.cell(row)));
    const line = h("tr", {}, cells);
    if (!detail) return [line];
    const extra = h("tr", { class: "extra", hidden: true }, h("td", { colspan: columns.length }));
    const button = h("button", { type: "button", class: "opener", "aria-expanded": "false", onclick: () => {
      extra.hidden = !extra.hidden;
      button.setAttribute("aria-expanded", String(!extra.hidden));
      if (!extra.hidden) replaceChildren(extra.firstChild, detail(row));
    } }, ...cells[0].childNodes);
    cells[0].append(button);
    return [line, extra];
  }
  draw();
  const table = h("table", { class: "sortable" }, h("caption", { class: "quiet-caption" }, caption), h("thead", {}, h("tr", {}, heads)), body);
  return h("div", {}, scrolled(caption, table), more);
}
