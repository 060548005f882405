// The workers of the group: who leads, and what runs where. Any of them tells it.

import { connectorHref } from "./connectors.js";
import { h } from "./dom.js";
import * as f from "./format.js";
import { watch } from "./live.js";
import { get, Refused } from "./rest.js";
import { table } from "./table.js";

const POLL_MS = 5000;

export function workersView(app) {
  const seen = { told: null, trouble: null };
  const feed = watch(async () => {
    try {
      seen.told = await get("admin/workers");
      seen.trouble = null;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      seen.trouble = error.status === 404 ? "This address tells nothing of workers: /admin/workers is not served here." : error.message;
    }
    app.render();
  }, POLL_MS);
  return {
    title: () => "Workers",
    close: () => feed.end(),
    content: () => [
      h("div", { class: "lead", key: "lead" }, h("h1", {}, "Workers"), seen.told ? h("p", { class: "quiet" }, summary(seen.told)) : null),
      ...notes(seen.told),
      h(
        "section",
        { class: "card", key: "workers" },
        seen.told ? workers(seen.told, app) : h("p", { class: seen.trouble ? "trouble" : "quiet" }, seen.trouble ?? "Loading …"),
      ),
      seen.told && seen.trouble ? h("p", { class: "banner", key: "trouble" }, "▲ ", seen.trouble) : null,
    ],
  };
}

function summary({ workers: all, generation }) {
  const tasks = all.reduce((sum, worker) => sum + worker.tasks.length, 0);
  const place = f.known(generation) ? "" : " This worker is outside of its group now.";
  return `${f.plural(all.length, "worker")} with ${f.plural(tasks, "task")}.${place}`;
}

function notes(told) {
  if (!told) return [];
  const present = new Set(told.workers.map((each) => each.worker_id));
  const lines = told.lost
    .filter((each) => !present.has(each.worker_id) && (each.connectors.length || each.tasks.length))
    .map((each) => `${each.worker_id} left the group or was lost ${f.millis(each.lost_ago_ms)} ago.`);
  if (told.delay_ms) lines.push(`What a lost worker ran waits for it for ${f.millis(told.delay_ms)} more.`);
  if (!told.workers.some((each) => each.leads)) lines.push("No worker leads the group now.");
  return lines.map((line) => h("p", { class: "banner", key: line }, "▲ ", line));
}

function workers(told, app) {
  return table({
    label: "Workers",
    columns: [
      {
        head: "Worker",
        cell: (row) => [
          row.url ? h("a", { class: "strong", href: new URL("ui#/workers", row.url).href }, row.worker_id) : h("span", { class: "strong" }, row.worker_id),
          row.worker_id === told.answering ? h("span", { class: "quiet" }, " (this one)") : null,
        ],
      },
      { head: "Role", cell: (row) => (row.leads ? "leads" : "member") },
      { head: "Connectors", number: true, cell: (row) => f.count(row.connectors.length) },
      { head: "Tasks", number: true, cell: (row) => f.count(row.tasks.length) },
      { head: "Runs", cell: (row) => runs(row) },
      { head: "Spark", cell: (row) => f.or(row.spark, (word) => word.toLowerCase()) },
      { head: "Lease", number: true, cell: (row) => f.or(row.lease_ms, f.millis, row.version ? "for ever" : "unknown") },
      { head: "Version", cell: (row) => f.or(row.version, String) },
      { head: "Told", cell: (row) => f.or(row.told_ms, (ms) => `${f.ago(ms, app.now())} ago`) },
    ],
    rows: told.workers,
    key: (row) => row.worker_id,
    none: "No workers are known.",
  });
}

/** Connectors by name, each with the numbers of its tasks that run there; on a Spark cluster by executor. */
function runs({ connectors, tasks }) {
  const found = new Map(connectors.map((name) => [name, []]));
  for (const task of tasks) found.set(task.connector, [...(found.get(task.connector) ?? []), task]);
  if (!found.size) return h("span", { class: "quiet" }, "nothing");
  return [...found]
    .sort(([one], [other]) => one.localeCompare(other))
    .map(([name, its]) => h("span", { class: "block", key: name }, h("a", { href: connectorHref(name) }, name), its.length ? h("span", { class: "quiet" }, ` tasks ${byExecutor(its)}`) : null));
}

/** `0–1 at executor 0 on a, 2 at executor 1 on b`; the numbers alone where there is no executor. */
function byExecutor(tasks) {
  const found = new Map();
  for (const each of tasks) found.set(executorOf(each), [...(found.get(executorOf(each)) ?? []), each.task]);
  return [...found].map(([executor, numbers]) => ranges(numbers) + (executor ? ` at executor ${executor}` : "")).join(", ");
}

/** Spark's id of a task's executor and its host; null with a local master, and if it is unknown. */
export function executorOf({ executor, host }) {
  if (!f.known(executor)) return null;
  return f.known(host) ? `${executor} on ${host}` : executor;
}

/** `0–2, 5` of 0, 1, 2 and 5. */
export function ranges(numbers) {
  const found = [];
  for (const number of [...numbers].sort((one, other) => one - other)) {
    const last = found.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else found.push([number, number]);
  }
  return found.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`)).join(", ");
}
