// Creates a connector, or edits the config of one: the form is made of what the worker's own validation answers, and each
// change is validated there while somebody types. Nothing is stored before the last button.

import { connectorHref } from "./connectors.js";
import { h } from "./dom.js";
import * as f from "./format.js";
import { ask, get, path, Refused } from "./rest.js";
import { difference, errorsOf, hasField, sectionsOf } from "./settings.js";
import { table } from "./table.js";

const TYPING_MS = 350;
const SOURCE = "org.apache.kafka.connect.mirror.MirrorSourceConnector";

export function configView(app, editing) {
  const form = {
    editing,
    plugins: null,
    values: {},
    // Rows of settings without definitions: {id, name, value}.
    rows: [],
    answer: null,
    touched: new Set(),
    attempted: false,
    search: "",
    state: "RUNNING",
    shown: new Set(),
    trouble: null,
    review: null,
  };
  let typing = 0;
  let asked = null;
  let rowId = 0;

  const config = () => {
    const all = { ...form.values };
    for (const { name, value } of form.rows) if (name.trim()) all[name.trim()] = value;
    return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== ""));
  };

  async function validate() {
    asked?.abort();
    asked = new AbortController();
    const { signal } = asked;
    const sent = config();
    try {
      const plugin = f.shortClass(sent["connector.class"]);
      const answer = await ask("PUT", path(["connector-plugins", plugin, "config", "validate"]), sent, signal);
      form.answer = answer;
      form.trouble = null;
    } catch (error) {
      if (!(error instanceof Refused)) {
        if (error.name !== "AbortError") throw error;
        return false;
      }
      form.trouble = error.message;
    }
    app.render();
    return form.trouble === null && form.answer.error_count === 0;
  }

  function soon() {
    clearTimeout(typing);
    typing = setTimeout(validate, TYPING_MS);
  }

  async function load() {
    try {
      if (editing) {
        form.values = await get(path(["connectors", editing, "config"]));
      } else {
        form.plugins = (await get("connector-plugins")).map((plugin) => plugin.class);
        form.values = { "connector.class": form.plugins.includes(SOURCE) ? SOURCE : form.plugins[0] };
      }
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      form.trouble = error.message;
      app.render();
      return;
    }
    await validate();
    takeRows();
    app.render();
  }

  function takeRows() {
    if (!form.answer) return;
    for (const [name, value] of Object.entries(form.values)) {
      if (hasField(form.answer, name)) continue;
      form.rows.push({ id: rowId++, name, value });
      delete form.values[name];
    }
  }

  const actions = {
    set(name, value) {
      form.values[name] = value;
      form.touched.add(name);
      soon();
    },
    choose(name) {
      form.values = { ...form.values, "connector.class": name };
      form.answer = null;
      app.render();
      validate();
    },
    row(id, change) {
      Object.assign(
        form.rows.find((row) => row.id === id),
        change,
      );
      soon();
    },
    addRow() {
      form.rows.push({ id: rowId++, name: "", value: "" });
      app.render();
      document.querySelector(".rows li:last-of-type input")?.focus();
    },
    removeRow(id) {
      form.rows = form.rows.filter((row) => row.id !== id);
      app.render();
      soon();
    },
    find(text) {
      form.search = text.trim().toLowerCase();
      app.render();
    },
    start: (state) => (form.state = state),
    show(name) {
      if (!form.shown.delete(name)) form.shown.add(name);
      app.render();
    },
    back() {
      form.review = null;
      app.render();
    },
    async submit(event) {
      event.preventDefault();
      clearTimeout(typing);
      form.attempted = true;
      if (!(await validate())) {
        document.querySelector('[aria-invalid="true"]')?.focus();
        return;
      }
      if (editing) await review();
      else await create();
    },
    async save() {
      if (await app.act(`The config of ${editing} is saved`, () => ask("PUT", path(["connectors", editing, "config"]), config()))) {
        app.go(connectorHref(editing));
      }
    },
  };

  async function create() {
    const { name } = form.values;
    const body = { name, config: config(), initial_state: form.state };
    if (await app.act(`${name} is created`, () => ask("POST", "connectors", body))) app.go(connectorHref(name));
  }

  // Against what is stored now: somebody else may have changed it since the form was opened.
  async function review() {
    try {
      form.review = difference(await get(path(["connectors", editing, "config"])), config());
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      app.notice(error.message, "bad");
    }
    app.render();
    document.getElementById("main").focus();
  }

  load();
  return {
    title: () => (editing ? `Edit ${editing}` : "New connector"),
    close() {
      clearTimeout(typing);
      asked?.abort();
    },
    content: () => [
      h(
        "div",
        { class: "lead", key: "lead" },
        h(
          "p",
          { class: "crumbs" },
          h("a", { href: "#/connectors" }, "Connectors"),
          editing ? [" / ", h("a", { href: connectorHref(editing) }, editing)] : null,
        ),
        h("h1", {}, editing ? `Edit ${editing}` : "New connector"),
      ),
      form.trouble ? h("p", { class: "banner", role: "alert", key: "trouble" }, "▲ ", form.trouble) : null,
      app.readOnly ? h("p", { class: "banner", key: "readonly" }, "This worker is read-only for this page.") : form.review ? reviewOf(form, actions) : formOf(form, actions),
    ],
  };
}

function reviewOf(form, actions) {
  const side = (key, value) => (value === undefined ? h("span", { class: "quiet" }, "not set") : h("code", { class: "value" }, f.isSecret(key, value) ? "••••••••" : value));
  const kind = ({ before, after }) => (before === undefined ? "+ added" : after === undefined ? "− removed" : "~ changed");
  return h(
    "section",
    { class: "card", key: "review" },
    h("h2", {}, form.review.length ? "These changes will be saved" : "Nothing has changed"),
    form.review.length
      ? table({
          label: "Changes",
          columns: [
            { head: "Change", cell: (row) => h("span", { class: `change ${kind(row).split(" ")[1]}` }, kind(row)) },
            { head: "Setting", cell: (row) => h("code", {}, row.key) },
            { head: "Now", cell: (row) => side(row.key, row.before) },
            { head: "After", cell: (row) => side(row.key, row.after) },
          ],
          rows: form.review,
          key: (row) => row.key,
        })
      : null,
    h(
      "div",
      { class: "buttons" },
      h("button", { type: "button", onclick: actions.back }, "Back to the form"),
      form.review.length ? h("button", { type: "button", class: "primary", onclick: actions.save }, "Save changes") : null,
    ),
  );
}

function formOf(form, actions) {
  if (!form.answer && form.trouble === null) return h("p", { class: "quiet", key: "loading" }, "Loading …");
  const sections = form.answer ? sectionsOf(form.answer) : [];
  const open = form.answer ? form.answer.error_count : 0;
  return h(
    "form",
    { key: "form", class: "config", onsubmit: actions.submit, novalidate: true, autocomplete: "off" },
    form.editing ? null : whatItIs(form, actions),
    h(
      "label",
      { class: "search", key: "search" },
      h("span", { class: "hidden" }, "Find a setting"),
      h("input", { type: "search", placeholder: "Find a setting", oninput: (event) => actions.find(event.target.value) }),
    ),
    sections.map((section, index) => sectionOf(section, index, form, actions)),
    rowsOf(form, actions),
    h(
      "div",
      { class: "submit card", key: "submit" },
      h("p", { "aria-live": "polite" }, open ? `${f.plural(open, "setting")} to complete or correct.` : "The worker accepts this config."),
      form.editing
        ? null
        : h(
            "label",
            { class: "inline" },
            "Begin as ",
            h(
              "select",
              { onchange: (event) => actions.start(event.target.value) },
              ["RUNNING", "PAUSED", "STOPPED"].map((state) => h("option", { value: state }, f.stateText(state))),
            ),
          ),
      h("button", { type: "submit", class: "primary" }, form.editing ? "Review changes" : "Create connector"),
    ),
  );
}

function whatItIs(form, actions) {
  const name = form.values["connector.class"];
  return h(
    "fieldset",
    { class: "card", key: "what" },
    h("legend", {}, "What it is"),
    field(form, actions, { definition: { name: "name", type: "STRING", required: true, importance: "HIGH", documentation: "Names the connector; unique in this group of workers." }, errors: errorsOf(form.answer, "name"), recommended: [] }),
    h(
      "div",
      { class: "field", key: "class" },
      h("label", { for: "s-connector.class" }, h("code", {}, "connector.class")),
      h(
        "select",
        { id: "s-connector.class", onchange: (event) => actions.choose(event.target.value) },
        (form.plugins ?? [name]).map((plugin) => h("option", { value: plugin, selected: plugin === name }, f.shortClass(plugin))),
      ),
      h("p", { class: "doc" }, KINDS[f.shortClass(name)] ?? ""),
    ),
  );
}

const KINDS = {
  MirrorSourceConnector: "Copies topics, their configs and ACLs.",
  MirrorCheckpointConnector: "Translates the positions of consumer groups.",
  MirrorHeartbeatConnector: "Proves that the link is alive.",
};

function sectionOf({ title, fields }, index, form, actions) {
  const { search } = form;
  const found = fields.filter(({ definition }) => !search || `${definition.name} ${definition.documentation}`.toLowerCase().includes(search));
  const shown = found.filter((each) => each.visible !== false || form.values[each.definition.name]);
  if (!shown.length) return null;
  const wrong = shown.filter((each) => visibleErrors(form, each).length).length;
  const given = shown.filter((each) => form.values[each.definition.name]).length;
  const notes = [given ? `${given} set` : null, wrong ? `${f.plural(wrong, "error")}` : null].filter(Boolean).join(", ");
  return h(
    "details",
    // While somebody searches, all that was found is open.
    { class: "card section", key: `${title} ${search ? "found" : ""}`, open: index === 0 || Boolean(search) || Boolean(form.attempted && wrong) },
    h("summary", {}, h("h2", {}, title), h("span", { class: wrong ? "trouble" : "quiet" }, notes || f.plural(shown.length, "setting"))),
    h("div", { class: "fields" }, shown.map((each) => field(form, actions, each))),
  );
}

const visibleErrors = (form, { definition, errors }) => (form.attempted || form.touched.has(definition.name) || form.editing ? errors : []);

function field(form, actions, each) {
  const { definition, recommended } = each;
  const { name, type } = definition;
  const errors = visibleErrors(form, each);
  const id = `s-${name}`;
  const about = [`${id}-doc`, errors.length ? `${id}-errors` : null].filter(Boolean).join(" ");
  const value = form.values[name] ?? "";
  const common = { id, "aria-describedby": about, "aria-invalid": errors.length ? "true" : null, "aria-required": definition.required ? "true" : null };
  const change = (event) => actions.set(name, event.target.value);
  const hint = f.known(definition.default_value) && definition.default_value !== "" ? definition.default_value : "";
  return h(
    "div",
    { class: "field", key: `${form.values["connector.class"]} ${name}` },
    h(
      "label",
      { for: id },
      h("code", {}, name),
      definition.required ? h("span", { class: "tag" }, "required") : null,
      h("span", { class: "tag quiet" }, `${definition.importance.toLowerCase()} importance`),
    ),
    control(form, actions, { name, type, value, common, change, hint, recommended }),
    h("p", { class: "doc", id: `${id}-doc` }, definition.documentation, hint && type === "BOOLEAN" ? "" : hint ? [" Default: ", h("code", {}, hint), "."] : ""),
    errors.length ? h("ul", { class: "errors", id: `${id}-errors` }, errors.map((error) => h("li", {}, h("span", { "aria-hidden": "true" }, "✕ "), error))) : null,
  );
}

function control(form, actions, { name, type, value, common, change, hint, recommended }) {
  if (type === "BOOLEAN") {
    const option = (text, label) => h("option", { value: text, selected: value === text }, label);
    return h("select", { ...common, onchange: change }, option("", `default (${hint || "none"})`), option("true", "true"), option("false", "false"));
  }
  if (type === "PASSWORD" || f.isSecret(name)) {
    const shown = form.shown.has(name);
    return h(
      "span",
      { class: "secret" },
      h("input", { ...common, type: shown ? "text" : "password", value, oninput: change, autocomplete: "new-password", spellcheck: "false" }),
      h("button", { type: "button", class: "small", onclick: () => actions.show(name), "aria-label": `${shown ? "Hide" : "Show"} ${name}` }, shown ? "Hide" : "Show"),
    );
  }
  const list = recommended.length ? `${common.id}-values` : null;
  const number = ["INT", "LONG", "SHORT", "DOUBLE"].includes(type);
  const size = number || type === "LIST" || type === "CLASS" ? null : null;
  return [
    h("input", { ...common, type: "text", class: number ? "number" : size, inputmode: number ? "decimal" : null, value, oninput: change, placeholder: hint.length > 60 ? `${hint.slice(0, 60)}…` : hint, list, spellcheck: "false" }),
    list ? h("datalist", { id: list }, recommended.map((each) => h("option", { value: each }))) : null,
  ];
}

function rowsOf(form, actions) {
  if (!form.answer) return null;
  return h(
    "details",
    { class: "card section", key: "rows", open: form.rows.length > 0 },
    h("summary", {}, h("h2", {}, "Client settings and others"), h("span", { class: "quiet" }, form.rows.length ? `${form.rows.length} set` : "none")),
    h(
      "p",
      { class: "doc" },
      "With a prefix, such as ",
      h("code", {}, "source.cluster.security.protocol"),
      ", ",
      h("code", {}, "source.consumer.…"),
      " or ",
      h("code", {}, "producer.override.…"),
      ".",
    ),
    h(
      "ul",
      { class: "rows" },
      form.rows.map((row) => {
        const errors = errorsOf(form.answer, row.name);
        const secret = f.isSecret(row.name);
        return h(
          "li",
          { key: `row ${row.id}` },
          h("input", { type: "text", "aria-label": "Name of the setting", value: row.name, spellcheck: "false", oninput: (event) => actions.row(row.id, { name: event.target.value }) }),
          h("input", { type: secret ? "password" : "text", "aria-label": `Value of ${row.name || "the setting"}`, value: row.value, spellcheck: "false", autocomplete: "new-password", "aria-invalid": errors.length ? "true" : null, oninput: (event) => actions.row(row.id, { value: event.target.value }) }),
          h("button", { type: "button", class: "small", onclick: () => actions.removeRow(row.id), "aria-label": `Remove ${row.name || "the row"}` }, "Remove"),
          errors.length ? h("span", { class: "errors" }, errors.join(" ")) : null,
        );
      }),
    ),
    h("button", { type: "button", class: "small", onclick: actions.addRow }, "Add a setting"),
  );
}
