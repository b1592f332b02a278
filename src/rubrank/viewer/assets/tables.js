// Two kinds of tables: cells coloured from −1 (orange) over 0 to 1 (blue), and rows that can be sorted.

import { h, replaceChildren, scrolled } from "./dom.js";
import { count, isNumber, signed } from "./numbers.js";

/** rows × columns of numbers from −1 to 1; cell(i, j) gives the number, title(i, j) says more about it. */
export function heatTable({ caption, rows, columns, cell, title, corner = "", format = signed, columnTitles = columns }) {
  const makeCell = (i, j) => {
    const value = cell(i, j);
    const tooltip = title && title(i, j);
    if (!isNumber(value)) return h("td", { class: "none", title: tooltip }, "–");
    const strength = `${Math.round(78 * Math.min(1, Math.abs(value)))}%`;
    return h("td", { class: value < 0 ? "minus" : "plus", "--heat": strength, title: tooltip }, format(value));
  };
  const head = h("tr", {},
    corner ? h("th", { scope: "col", class: "corner" }, corner) : h("td", {}),
    columns.map((name, j) => h("th", { scope: "col", title: columnTitles[j] }, h("span", {}, name))));
  const body = rows.map((name, i) => h("tr", {},
    h("th", { scope: "row", title: name }, name),
    columns.map((_, j) => makeCell(i, j))));
  const table = h("table", { class: columns.length > 6 ? "heat many" : "heat" },
    h("caption", { class: "quiet-caption" }, caption),
    h("thead", {}, head),
    h("tbody", {}, body));
  return scrolled(caption, table);
}

/**
 * A table that sorts itself when a heading is clicked.
 * columns: {title, key(row) to sort by, cell(row) → child, class, hint}. detail(row): shown below a row that is opened.
 * most: rows that are shown before "Show all". sorted: the column to sort by at first.
 */
export function sortableTable({ caption, columns, rows, detail, most = 40, sorted = null }) {
  const state = { column: sorted, descending: true, showAll: rows.length <= most };
  const body = h("tbody", {});
  const showAllButton = h("button", { type: "button", onclick: showAll });
  const heads = columns.map((column) => {
    const button = column.key
      && h("button", { type: "button", title: column.hint, onclick: () => sortBy(column) }, column.title);
    return h("th", { scope: "col", class: column.class, title: column.hint }, button || column.title);
  });

  function showAll() {
    state.showAll = true;
    draw();
  }

  function sortBy(column) {
    state.descending = state.column === column ? !state.descending : true;
    state.column = column;
    draw();
  }

  /** Rows without a value come last, whatever the direction. */
  function sortRows() {
    if (!state.column) return rows;
    const { key } = state.column;
    const sign = state.descending ? -1 : 1;
    const isMissing = (value) => value === null || value === undefined;
    return rows.slice().sort((a, b) => {
      const x = key(a);
      const y = key(b);
      if (isMissing(x) || isMissing(y)) return Number(isMissing(x)) - Number(isMissing(y));
      // Texts are negated: a first click sorts numbers from the largest, but names from A.
      return sign * (typeof x === "string" ? -x.localeCompare(y) : x - y);
    });
  }

  function draw() {
    heads.forEach((head, i) => {
      const direction = state.descending ? "descending" : "ascending";
      head.setAttribute("aria-sort", columns[i] === state.column ? direction : "none");
    });
    const shown = sortRows().slice(0, state.showAll ? rows.length : most);
    replaceChildren(body, shown.flatMap((row) => makeRows(row)));
    showAllButton.hidden = state.showAll;
    showAllButton.textContent = `Show all ${count(rows.length)}`;
  }

  /** The <tr> of a row; with `detail` also a hidden one below it, which is filled when it is opened. */
  function makeRows(row) {
    const cells = columns.map((column, i) => {
      const props = { scope: i ? null : "row", class: column.class, "data-label": column.title };
      return h(i ? "td" : "th", props, column.cell(row));
    });
    const line = h("tr", {}, cells);
    if (!detail) return [line];
    const extra = h("tr", { class: "extra", hidden: true }, h("td", { colspan: columns.length }));
    const props = { type: "button", class: "opener", "aria-expanded": "false", onclick: toggle };
    const button = h("button", props, ...cells[0].childNodes);
    function toggle() {
      extra.hidden = !extra.hidden;
      button.setAttribute("aria-expanded", String(!extra.hidden));
      if (!extra.hidden) replaceChildren(extra.firstChild, detail(row));
    }
    cells[0].append(button);
    return [line, extra];
  }

  draw();
  const table = h("table", { class: "sortable" },
    h("caption", { class: "quiet-caption" }, caption),
    h("thead", {}, h("tr", {}, heads)),
    body);
  return h("div", {}, scrolled(caption, table), showAllButton);
}
