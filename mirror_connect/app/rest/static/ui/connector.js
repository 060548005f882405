// One connector: its state, its tasks, its config, its source offsets, and what can be done with it.

import { connectorHref } from "./connectors.js";
import { h } from "./dom.js";
import * as f from "./format.js";
import { watch } from "./live.js";
import { linkHref } from "./overview.js";
import { problemList } from "./problems.js";
import { ask, get, path, Refused } from "./rest.js";
import { table } from "./table.js";
import { executorOf } from "./workers.js";

const POLL_MS = 5000;
const CONFIG_MS = 30_000;
const MOST_OFFSETS = 200;

export function connectorView(app, name) {
  const at = (...more) => path(["connectors", name, ...more]);
  const seen = { status: null, config: null, offsets: null, executors: new Map(), troubles: {}, shown: new Set() };
  const status = watch(loads("status", () => get(at("status"))), POLL_MS);
  const executors = watch(loads("executors", async () => executorsOf(name, await get("admin/workers"))), POLL_MS);
  const config = watch(loads("config", () => get(at("config"))), CONFIG_MS);

  function loads(member, load) {
    return async () => {
      try {
        seen[member] = await load();
        delete seen.troubles[member];
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        seen.troubles[member] = error.message;
      }
      app.render();
    };
  }

  async function act(what, method, where, query = "") {
    const done = await app.act(what, () => ask(method, where + query));
    for (const after of [0, 700, 2000]) setTimeout(status.now, after);
    return done;
  }

  const actions = {
    pause: () => act(`${name} is asked to pause`, "PUT", at("pause")),
    resume: () => act(`${name} is asked to run`, "PUT", at("resume")),
    stop: () => act(`${name} is asked to stop`, "PUT", at("stop")),
    restart: () => act(`${name} is restarted`, "POST", at("restart")),
    restartAll: () => act(`${name} and its tasks are restarted`, "POST", at("restart"), "?includeTasks=true"),
    restartFailed: () => act(`What has failed of ${name} is restarted`, "POST", at("restart"), "?includeTasks=true&onlyFailed=true"),
    restartTask: (task) => act(`Task ${task} of ${name} is restarted`, "POST", at("tasks", String(task), "restart")),
    reset: () =>
      app.dialog({
        title: "Reset the source offsets?",
        text: [
          `${name} forgets how far it has copied. When it runs again, it copies its topics from where its consumer begins, `.concat("usually from the start: their records are then on the target twice."),
        ],
        yes: "Reset offsets",
        danger: true,
        then: async () => {
          if (await act(`The source offsets of ${name} are reset`, "DELETE", at("offsets"))) seen.offsets = null;
        },
      }),
    remove: () =>
      app.dialog({
        title: `Delete ${name}?`,
        text: "It stops copying and its config is gone. Its topics on the target and its source offsets stay.",
        yes: "Delete",
        typed: name,
        danger: true,
        then: async () => {
          if (await app.act(`${name} is deleted`, () => ask("DELETE", at()))) app.go("#/connectors");
        },
      }),
    offsets: loads("offsets", async () => (await get(at("offsets"))).offsets),
    show(key) {
      if (!seen.shown.delete(key)) seen.shown.add(key);
      app.render();
    },
  };

  return {
    title: () => name,
    close() {
      status.end();
      executors.end();
      config.end();
    },
    content: () => content(app, name, seen, actions),
  };
}

function content(app, name, seen, actions) {
  const link = app.links.find((each) => each.connectors.some((connector) => connector.name === name));
  const { status } = seen;
  const state = status?.connector.state;
  const problems = (link?.problems ?? []).filter((problem) => problem.connector === name);
  return [
    h(
      "div",
      { class: "lead", key: "lead" },
      h("p", { class: "crumbs" }, h("a", { href: "#/connectors" }, "Connectors"), link ? [" · link ", h("a", { href: linkHref(link.name) }, link.name)] : null),
      h("h1", {}, name, " ", status ? f.pill(state) : null),
      seen.config ? h("p", { class: "quiet" }, f.shortClass(seen.config["connector.class"]), status?.connector.worker_id ? ` on ${status.connector.worker_id}` : "") : null,
    ),
    // Of the status alone: what else is refused is told where it would be, or not there at Kafka's own workers.
    seen.troubles.status ? h("p", { class: "banner", key: "trouble" }, "▲ ", seen.troubles.status) : null,
    app.readOnly || !status ? null : toolbar(name, state, status.tasks, actions),
    problemList(problems, app.now()),
    status ? traceOf("The connector", status.connector.trace, problems) : null,
    status ? tasks(app, status.tasks, seen.executors, actions, problems) : null,
    seen.config ? config(seen, actions) : null,
    seen.config ? h("section", { class: "card", key: "offsets" }, h("h2", {}, "Source offsets"), offsets(seen, actions)) : null,
  ];
}

function toolbar(name, state, taskList, actions) {
  const button = (text, onclick, more = {}) => h("button", { type: "button", onclick, key: text, ...more }, text);
  const halted = state === "PAUSED" || state === "STOPPED";
  const stopped = state === "STOPPED" && taskList.length === 0;
  const close = (action) => (event) => {
    event.target.closest("details").open = false;
    action();
  };
  return h(
    "div",
    { class: "toolbar", key: "toolbar", role: "group", "aria-label": `Change ${name}` },
    halted ? button("Resume", actions.resume, { class: "primary" }) : button("Pause", actions.pause),
    button("Stop", actions.stop, { disabled: state === "STOPPED" }),
    h(
      "details",
      { class: "menu", key: "menu" },
      h("summary", {}, "Restart"),
      h(
        "div",
        { class: "items" },
        button("The connector", close(actions.restart)),
        button("Connector and all tasks", close(actions.restartAll)),
        button("Only what has failed", close(actions.restartFailed)),
      ),
    ),
    h("a", { class: "button", href: connectorHref(name, "/edit"), key: "edit" }, "Edit config"),
    button("Reset offsets", actions.reset, { disabled: !stopped, title: stopped ? null : "Only of a stopped connector", "aria-description": stopped ? null : "Only of a stopped connector" }),
    button("Delete", actions.remove, { class: "danger" }),
  );
}

function traceOf(what, trace, problems) {
  const lines = (trace ?? "").trim();
  // What the problems above say already.
  if (!lines || lines.split("\n").every((line) => problems.some((problem) => line.includes(problem.line)))) return null;
  const [first, ...rest] = lines.split("\n");
  return h(
    "section",
    { class: "card trace", key: `trace ${what}` },
    h("p", {}, h("span", { class: "trouble" }, "▲ "), `${what}: ${first}`),
    rest.length ? h("details", {}, h("summary", {}, "All of it"), h("pre", { tabindex: 0 }, lines)) : null,
  );
}

/** Of each of its tasks on a Spark cluster: number → executor and host. */
function executorsOf(name, { workers }) {
  const its = workers.flatMap((worker) => worker.tasks).filter((task) => task.connector === name);
  return new Map(its.map((task) => [task.task, executorOf(task)]).filter(([, executor]) => executor));
}

function tasks(app, list, executors, actions, problems) {
  const executor = { head: "Executor", cell: (task) => h("span", { class: "quiet" }, executors.get(task.id) ?? "unknown") };
  const restart = { head: "Change", cell: (task) => h("button", { type: "button", class: "small", onclick: () => actions.restartTask(task.id), "aria-label": `Restart task ${task.id}` }, "Restart") };
  return [
    h(
      "section",
      { class: "card", key: "tasks" },
      h("h2", {}, "Tasks"),
      table({
        label: "Tasks",
        columns: [
          { head: "Task", cell: (task) => h("span", { class: "strong" }, task.id) },
          { head: "State", cell: (task) => f.pill(task.state, problems.filter((problem) => problem.task === task.id).length) },
          { head: "Worker", cell: (task) => h("span", { class: "quiet" }, task.worker_id ?? "none") },
          // With a local master there is none.
          ...(executors.size ? [executor] : []),
          ...(app.readOnly ? [] : [restart]),
        ],
        rows: list,
        key: (task) => task.id,
        none: "No tasks: it is stopped, or it has nothing to copy.",
      }),
    ),
    list.map((task) => traceOf(`Task ${task.id}`, task.trace, problems)),
  ];
}

function config(seen, actions) {
  const rows = Object.entries(seen.config).sort(([one], [other]) => one.localeCompare(other));
  const value = ([key, text]) => {
    if (!f.isSecret(key, text)) return h("code", { class: "value" }, text);
    const shown = seen.shown.has(key);
    return [
      h("code", { class: "value" }, shown ? text : "••••••••"),
      " ",
      h("button", { type: "button", class: "small", onclick: () => actions.show(key), "aria-label": `${shown ? "Hide" : "Show"} ${key}` }, shown ? "Hide" : "Show"),
    ];
  };
  return h(
    "section",
    { class: "card", key: "config" },
    h("h2", {}, "Config"),
    table({
      label: "Config",
      columns: [
        { head: "Setting", cell: ([key]) => h("code", { class: "setting" }, key) },
        { head: "Value", cell: value },
      ],
      rows,
      key: ([key]) => key,
    }),
  );
}

function offsets({ offsets: list, troubles }, actions) {
  const trouble = troubles.offsets ? h("p", { class: "errors", key: "trouble" }, "▲ ", troubles.offsets) : null;
  if (list === null) return [trouble, h("button", { type: "button", onclick: actions.offsets, key: "load" }, "Show source offsets")];
  return [
    trouble,
    table({
      label: "Source offsets",
      columns: [
        { head: "Partition", cell: ({ partition }) => h("code", {}, pairs(partition)) },
        { head: "Offset", cell: ({ offset }) => h("code", {}, pairs(offset)) },
      ],
      rows: list.slice(0, MOST_OFFSETS),
      key: ({ partition }) => JSON.stringify(partition),
      none: "None are committed.",
    }),
    list.length > MOST_OFFSETS ? h("p", { class: "quiet", key: "more" }, `${f.plural(list.length - MOST_OFFSETS, "more")}: GET /connectors/…/offsets has all.`) : null,
    h("button", { type: "button", class: "small", onclick: actions.offsets, key: "again" }, "Read again"),
  ];
}

const pairs = (value) =>
  value === null
    ? "none"
    : Object.entries(value)
        .map(([key, text]) => `${key}=${text}`)
        .join(" ");
