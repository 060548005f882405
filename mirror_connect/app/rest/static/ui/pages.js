// A long list, of which the worker gives a page at a time: searched, sorted, and asked again while it is shown.

import { h } from "./dom.js";
import { watch } from "./live.js";
import { get, path, Refused } from "./rest.js";

const LIMIT = 50;
const TYPING_MS = 200;

/** `member` is where the answer has the rows. */
export function pagesOf({ where, member, sort, everyMs, render }) {
  const list = { rows: null, total: 0, offset: 0, limit: LIMIT, sort, search: "", trouble: null };
  let asked = null;
  let typing = 0;
  const feed = watch(async () => {
    asked?.abort();
    asked = new AbortController();
    const { search, offset } = list;
    try {
      const found = await get(path(where, { search, sort: list.sort, limit: LIMIT, offset }), asked.signal);
      Object.assign(list, { rows: found[member], total: found.total, trouble: null });
      // Rows may have gone: stay within what there is.
      if (!list.rows.length && offset > 0) return list.go(Math.max(0, Math.floor((found.total - 1) / LIMIT) * LIMIT));
    } catch (error) {
      if (!(error instanceof Refused)) return undefined;
      list.trouble = error.message;
    }
    render();
    return undefined;
  }, everyMs);

  Object.assign(list, {
    end: () => feed.end(),
    go(offset) {
      list.offset = offset;
      feed.now();
    },
    sortBy(column) {
      list.sort = column;
      list.go(0);
    },
    find(text) {
      clearTimeout(typing);
      typing = setTimeout(() => {
        list.search = text.trim();
        list.go(0);
      }, TYPING_MS);
    },
  });
  return list;
}

export const searchBox = (list, label) =>
  h(
    "label",
    { class: "search", key: "search" },
    h("span", { class: "hidden" }, label),
    h("input", { type: "search", placeholder: label, autocomplete: "off", spellcheck: "false", oninput: (event) => list.find(event.target.value) }),
  );
