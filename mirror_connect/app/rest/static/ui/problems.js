// Problems: each line says what is wrong and what to do.

import { h } from "./dom.js";
import * as f from "./format.js";

export function problemList(problems, now, { more = 0 } = {}) {
  if (!problems.length) return null;
  return h(
    "section",
    { class: "card problems", key: "problems", "aria-labelledby": "problems-title" },
    h("h2", { id: "problems-title" }, "Needs attention"),
    h(
      "ul",
      {},
      problems.map((problem) =>
        h(
          "li",
          { key: [problem.link, problem.connector, problem.task, problem.code, problem.subject].join(" ") },
          h("span", { class: "mark", "aria-hidden": "true" }, "▲"),
          h(
            "div",
            {},
            h("p", {}, problem.line),
            h(
              "p",
              { class: "quiet small" },
              h("code", {}, problem.code),
              " · ",
              problem.connector ? h("a", { href: `${problem.home ?? ""}#/connectors/${encodeURIComponent(problem.connector)}` }, problem.connector) : problem.link,
              f.known(problem.task) ? ` · task ${problem.task}` : "",
              f.known(problem.since_ms) ? ` · since ${f.ago(problem.since_ms, now)}` : "",
            ),
          ),
        ),
      ),
    ),
    more ? h("p", { class: "quiet" }, `And ${f.plural(more, "more problem")}.`) : null,
  );
}
