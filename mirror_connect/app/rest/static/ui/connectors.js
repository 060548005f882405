// All connectors, with the state of each and of its tasks.

import { h } from "./dom.js";
import * as f from "./format.js";
import { linkHref } from "./overview.js";
import { table } from "./table.js";

export const connectorHref = (name, more = "", home = "") => `${home}#/connectors/${encodeURIComponent(name)}${more}`;

export function connectorsView(app) {
  return {
    title: () => "Connectors",
    content() {
      const rows = app.links.flatMap((link) => link.connectors.map((each) => ({ ...each, link: link.name, home: link.home })));
      rows.sort((one, other) => one.name.localeCompare(other.name));
      return [
        h("div", { class: "lead", key: "lead" }, h("h1", {}, "Connectors"), h("p", { class: "quiet" }, summary(rows))),
        h("section", { class: "card", key: "connectors" }, connectorTable(rows)),
      ];
    },
  };
}

function summary(rows) {
  const running = rows.filter((row) => row.state === "RUNNING").length;
  const tasks = rows.flatMap((row) => row.tasks);
  const busy = tasks.filter((task) => task.state === "RUNNING").length;
  return `${running} of ${f.plural(rows.length, "connector")} and ${busy} of ${f.plural(tasks.length, "task")} are running.`;
}

export function connectorTable(rows) {
  return table({
    label: "Connectors",
    columns: [
      { head: "Connector", cell: (row) => h("a", { class: "strong", href: connectorHref(row.name, "", row.home) }, row.name) },
      { head: "State", cell: (row) => f.pill(row.state) },
      { head: "Tasks", cell: (row) => tasksText(row.tasks) },
      { head: "Kind", cell: (row) => row.kind },
      { head: "Link", cell: (row) => h("a", { href: linkHref(row.link) }, row.link) },
      { head: "Workers", cell: (row) => h("span", { class: "quiet" }, workersOf(row)) },
    ],
    rows,
    key: (row) => `${row.link} ${row.name}`,
    none: "No connectors yet.",
  });
}

/** Where the connector and its tasks run: some, if they are many. */
function workersOf({ worker_id, tasks }) {
  const all = [...new Set([worker_id, ...tasks.map((task) => task.worker_id)].filter(Boolean))];
  if (!all.length) return "none";
  return all.length > 3 ? `${all.slice(0, 3).join(", ")} and ${all.length - 3} more` : all.join(", ");
}

function tasksText(tasks) {
  if (!tasks.length) return h("span", { class: "quiet" }, "no tasks");
  const states = new Map();
  for (const { state } of tasks) states.set(state, (states.get(state) ?? 0) + 1);
  return [...states].map(([state, number]) =>
    h("span", { class: `tasks ${f.stateClass(state)}`, key: state }, h("span", { class: "mark", "aria-hidden": "true" }, f.mark(state)), ` ${number} ${state.toLowerCase()}`),
  );
}
