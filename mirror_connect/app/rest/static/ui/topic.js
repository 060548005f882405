// One topic of a link: its partitions.

import { h } from "./dom.js";
import * as f from "./format.js";
import { watch } from "./live.js";
import { linkHref } from "./overview.js";
import { get, path, Refused } from "./rest.js";
import { table } from "./table.js";

const POLL_MS = 5000;
// Of a topic with thousands of partitions.
const PAGE = 200;

export function topicView(app, link, topic) {
  let told = null;
  let trouble = null;
  let shown = PAGE;
  const feed = watch(async () => {
    try {
      told = await get(path(["admin", "links", link, "topics", topic]));
      trouble = null;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      trouble = error.message;
    }
    app.render();
  }, POLL_MS);
  return {
    title: () => topic,
    close: () => feed.end(),
    content: () => [
      h(
        "div",
        { class: "lead", key: "lead" },
        h("p", { class: "crumbs" }, h("a", { href: "#/" }, "Links"), " / ", h("a", { href: linkHref(link, "topics") }, link)),
        h("h1", {}, topic),
        told ? h("p", { class: "quiet" }, "On the target: ", h("code", {}, told.remote_topic)) : null,
      ),
      h(
        "section",
        { class: "card", key: "partitions" },
        trouble || !told ? h("p", { class: trouble ? "trouble" : "quiet" }, trouble ?? "Loading …") : partitions(told.partitions.slice(0, shown), workers(app, link)),
        told && told.partitions.length > shown
          ? h("button", { type: "button", onclick: () => more(told.partitions.length) }, `Show all ${f.count(told.partitions.length)} partitions`)
          : null,
      ),
    ],
  };

  function more(all) {
    shown = all;
    app.render();
  }
}

/** Task → worker, if one connector of the link alone copies topics. */
function workers(app, name) {
  const copying = app.links.find((each) => each.name === name)?.connectors.filter((each) => each.kind === "source") ?? [];
  return new Map(copying.length === 1 ? copying[0].tasks.map((task) => [task.id, task.worker_id]) : []);
}

function partitions(rows, workerOf) {
  return table({
    label: "Partitions",
    columns: [
      {
        head: "Partition",
        cell: (row) => [h("span", { class: "strong" }, row.partition), row.problem ? h("span", { class: "trouble small block" }, "▲ ", row.problem) : null],
      },
      { head: "Behind", number: true, cell: (row) => f.or(row.lag_seconds, f.seconds) },
      { head: "Records behind", number: true, cell: (row) => f.or(row.lag_records, f.count) },
      { head: "Source offset", number: true, cell: (row) => f.or(row.source_offset, f.count) },
      { head: "Log end", number: true, cell: (row) => f.or(row.log_end, f.count) },
      { head: "Records", number: true, cell: (row) => f.or(row.records, f.count) },
      { head: "Bytes", number: true, cell: (row) => f.or(row.bytes, f.bytes) },
      { head: "Task", number: true, cell: (row) => f.or(row.task, String, "none") },
      { head: "Worker", cell: (row) => h("span", { class: "quiet" }, f.or(workerOf.get(row.task), String)) },
    ],
    rows,
    key: (row) => row.partition,
  });
}
