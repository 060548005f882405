// Tables: figures right, in a phone's width one row is a card. Sorting and pages are the worker's work, not the browser's.

import { h } from "./dom.js";
import * as f from "./format.js";

/** `columns`: {head, cell, number, sort}; `sorted` is the `sort` of one of them, `onsort` is called with another one. */
export function table({ label, columns, rows, key, sorted, onsort, none = "Nothing here." }) {
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      { "aria-label": label },
      h("thead", {}, h("tr", {}, columns.map((column) => head(column, sorted, onsort)))),
      h(
        "tbody",
        {},
        rows.length
          ? rows.map((row) => h("tr", { key: key(row) }, columns.map((column) => cell(column, row))))
          : h("tr", { key: "none" }, h("td", { colspan: columns.length, class: "quiet" }, none)),
      ),
    ),
  );
}

function head({ head: text, number, sort }, sorted, onsort) {
  const style = number ? "number" : null;
  if (!sort) return h("th", { scope: "col", class: style }, text);
  const active = sort === sorted;
  const way = sort === "name" ? "ascending" : "descending";
  return h(
    "th",
    { scope: "col", class: style, "aria-sort": active ? way : null },
    h(
      "button",
      { class: "plain sort", type: "button", onclick: () => onsort(sort) },
      text,
      h("span", { class: "mark", "aria-hidden": "true" }, active ? (sort === "name" ? " ↑" : " ↓") : ""),
    ),
  );
}

const cell = (column, row) => h("td", { class: column.number ? "number" : null, "data-label": column.head }, column.cell(row));

/** Where in a long list the table is, and the way to its neighbours. */
export function pager({ total, limit, offset, go, what }) {
  if (total <= limit && offset === 0) return h("p", { class: "quiet pager", key: "pager" }, f.plural(total, what));
  const last = Math.min(total, offset + limit);
  return h(
    "nav",
    { class: "pager", key: "pager", "aria-label": "Pages" },
    h("button", { type: "button", disabled: offset === 0, onclick: () => go(Math.max(0, offset - limit)) }, "Previous"),
    h("span", { "aria-live": "polite" }, `${f.count(Math.min(offset + 1, total))}–${f.count(last)} of ${f.plural(total, what)}`),
    h("button", { type: "button", disabled: last >= total, onclick: () => go(offset + limit) }, "Next"),
  );
}
