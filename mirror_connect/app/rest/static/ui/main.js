// The page: which view is shown, what all views share, and the question that is always open: how are the links?

import { connectorView } from "./connector.js";
import { connectorsView } from "./connectors.js";
import { h, s, show } from "./dom.js";
import { configView } from "./config_form.js";
import * as f from "./format.js";
import { linkView } from "./link.js";
import { loadLinks } from "./links.js";
import { watch } from "./live.js";
import { overview } from "./overview.js";
import { Refused } from "./rest.js";
import { topicView } from "./topic.js";
import { workersView } from "./workers.js";

const POLL_MS = 5000;
const element = (id) => document.getElementById(id);

const app = {
  worker: null,
  links: null,
  /** Whether the worker tells figures at all. */
  figures: true,
  /** Why the last question had no answer; null: it had. */
  trouble: null,
  get readOnly() {
    return app.worker?.read_only ?? true;
  },
  /** The worker's clock. */
  now: () => Date.now() + app.skew,
  skew: 0,
  render,
  refresh: () => links.now(),
  go: (hash) => (location.hash = hash),
  notice,
  act,
  dialog,
};

// --- what all views share ---

const links = watch(async () => {
  try {
    const told = await loadLinks();
    Object.assign(app, { worker: told.worker, links: told.links, figures: told.figures, trouble: null, heard: Date.now() });
    app.skew = (told.worker.time_ms ?? Date.now()) - Date.now();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    app.trouble = error.message;
  }
  render();
}, POLL_MS);

/** Does what somebody asked for, and says how that ended. True if the worker accepted it. */
async function act(what, request) {
  try {
    await request();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    notice(error.status === 409 ? `Refused now: ${error.message}` : `${what}: ${error.message}`, "bad");
    return false;
  }
  notice(what, "good");
  // The worker accepts first and acts then: what it says a moment later is what people want to see.
  for (const after of [0, 700, 2000]) setTimeout(app.refresh, after);
  return true;
}

let notices = [];
function notice(text, kind = "good") {
  const one = { text, kind };
  notices = [...notices.filter((other) => other.text !== text), one].slice(-4);
  drawNotices();
  if (kind === "good") setTimeout(() => dismiss(one), 6000);
}
function dismiss(one) {
  notices = notices.filter((other) => other !== one);
  drawNotices();
}
function drawNotices() {
  show(
    element("notices"),
    notices.map((one) =>
      h(
        "div",
        { class: `notice ${one.kind}`, key: one.text },
        h("span", { class: "mark", "aria-hidden": "true" }, one.kind === "good" ? "✓" : "✕"),
        h("span", {}, one.text),
        h("button", { class: "plain", type: "button", "aria-label": "Close this message", onclick: () => dismiss(one) }, "✕"),
      ),
    ),
  );
}

/** A question that stands before everything else. `typed`: what has to be typed before it can be answered with yes. */
function dialog({ title, text, yes, typed, danger, then }) {
  const box = element("dialog");
  const go = h("button", { type: "submit", class: danger ? "danger" : "primary", disabled: Boolean(typed) }, yes);
  const field = typed
    ? h(
        "label",
        { class: "field" },
        h("span", {}, "Type ", h("code", {}, typed), " to confirm"),
        h("input", { type: "text", autocomplete: "off", spellcheck: "false", oninput: (event) => (go.disabled = event.target.value !== typed) }),
      )
    : null;
  const answer = (event) => {
    event.preventDefault();
    box.close();
    then();
  };
  box.replaceChildren(
    h(
      "form",
      { onsubmit: answer },
      h("h2", { id: "dialog-title" }, title),
      [text].flat().map((line) => h("p", {}, line)),
      field,
      h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => box.close() }, "Cancel"), go),
    ),
  );
  box.showModal();
}

// --- which view ---

const ROUTES = [
  { at: /^$/, open: () => overview(app), key: () => "overview" },
  { at: /^connectors$/, open: () => connectorsView(app), key: () => "connectors" },
  { at: /^workers$/, open: () => workersView(app), key: () => "workers" },
  { at: /^create$/, open: () => configView(app, null), key: () => "create" },
  { at: /^connectors\/([^/]+)$/, open: (name) => connectorView(app, name), key: (name) => `connector ${name}` },
  { at: /^connectors\/([^/]+)\/edit$/, open: (name) => configView(app, name), key: (name) => `edit ${name}` },
  { at: /^links\/([^/]+)\/topics\/([^/]+)$/, open: (link, topic) => topicView(app, link, topic), key: (link, topic) => `topic ${link} ${topic}` },
  { at: /^links\/([^/]+)(?:\/(topics|groups|connectors))?$/, open: (link) => linkView(app, link), key: (link) => `link ${link}` },
];

let view = null;
let viewKey = null;

/** Null if one of them is no percent-encoded text: somebody typed it. */
function decoded(parts) {
  try {
    return parts.map((part) => (part === undefined ? undefined : decodeURIComponent(part)));
  } catch {
    return null;
  }
}

function route() {
  const where = location.hash.replace(/^#?\/?/, "");
  const found = ROUTES.map((each) => ({ ...each, match: each.at.exec(where) })).find((each) => each.match);
  const parts = found && decoded(found.match.slice(1));
  if (!parts) return app.go("#/");
  const key = found.key(...parts);
  const fresh = key !== viewKey;
  if (fresh) {
    view?.close?.();
    viewKey = key;
    view = found.open(...parts);
  }
  view.route?.(...parts);
  render();
  if (fresh && moved) {
    element("main").focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }
  moved = true;
  return undefined;
}
let moved = false;

function render() {
  drawHeader();
  if (!view) return;
  document.title = `${view.title()} · mirror-connect`;
  const main = element("main");
  if (app.links === null && app.trouble === null) return;
  show(main, app.trouble ? stale() : null, app.links === null ? null : view.content());
}

function stale() {
  const since = app.heard ? ` What is below is from ${f.timeOfDay(app.heard)}.` : "";
  return h("div", { class: "banner", key: "stale", role: "alert" }, h("span", { class: "mark", "aria-hidden": "true" }, "▲"), `${app.trouble}.${since}`);
}

function drawHeader() {
  const here = location.hash.replace(/^#?\/?/, "");
  const tab = (hash, text, active) => h("a", { href: hash, "aria-current": active ? "page" : null }, text);
  const { worker } = app;
  show(
    element("header"),
    h(
      "div",
      { class: "bar" },
      h("a", { class: "brand", href: "#/", "aria-label": "mirror-connect, all links" }, logo(), h("span", {}, "mirror-connect")),
      h(
        "nav",
        { "aria-label": "Views" },
        tab("#/", "Links", here === "" || here.startsWith("links")),
        tab("#/connectors", "Connectors", here.startsWith("connectors")),
        // In dedicated mode each flow has a group of its own, and a page below its path.
        worker && app.figures && worker.kafka_cluster_id !== null ? tab("#/workers", "Workers", here === "workers") : null,
        worker && !app.readOnly ? tab("#/create", "New connector", here === "create") : null,
      ),
      h(
        "div",
        { class: "state" },
        worker?.read_only ? h("span", { class: "badge", title: "A setting of the worker allows no changes by this page" }, "read-only") : null,
        worker
          ? h(
              "span",
              { class: `heard ${app.trouble ? "bad" : ""}`, title: `Worker ${worker.id}, version ${worker.version}` },
              h("span", { class: "mark", "aria-hidden": "true" }, app.trouble ? "✕" : "●"),
              h("span", { class: "worker" }, worker.id),
              app.heard ? h("span", { class: "quiet" }, app.trouble ? ` no answer since ${f.timeOfDay(app.heard)}` : ` at ${f.timeOfDay(app.heard)}`) : null,
            )
          : null,
        h("button", { class: "plain", type: "button", id: "theme", onclick: nextTheme }, `Theme: ${document.documentElement.dataset.theme}`),
      ),
    ),
  );
}

function nextTheme() {
  window.nextTheme();
  drawHeader();
}

const logo = () =>
  s(
    "svg",
    { viewBox: "0 0 32 32", width: 24, height: 24, "aria-hidden": "true" },
    s("rect", { width: 32, height: 32, rx: 8 }),
    s("circle", { cx: 9, cy: 16, r: 3.5 }),
    s("circle", { cx: 23, cy: 16, r: 3.5, class: "full" }),
    s("path", { d: "M14 16h4" }),
  );

document.querySelector(".skip").onclick = (event) => {
  event.preventDefault();
  element("main").focus();
};
window.addEventListener("hashchange", route);
window.matchMedia("(max-width: 40rem)").addEventListener("change", render);
route();
