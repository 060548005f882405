// One link: its figures, the last hour, and below that its topics, its groups or its connectors.

import { connectorTable } from "./connectors.js";
import { h } from "./dom.js";
import * as f from "./format.js";
import { history } from "./links.js";
import { watch } from "./live.js";
import { elsewhere, latency, linkHref } from "./overview.js";
import { pagesOf, searchBox } from "./pages.js";
import { plot } from "./plot.js";
import { problemList } from "./problems.js";
import { Refused } from "./rest.js";
import { pager, table } from "./table.js";

const PLOTS_MS = 10_000;
const TOPICS_MS = 5000;
const GROUPS_MS = 10_000;

export function linkView(app, name) {
  const hour = history(name, app.now);
  const plots = watch(async () => {
    if (!app.figures) return;
    try {
      await hour.load();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
    }
    app.render();
  }, PLOTS_MS);
  let tab = null;
  let list = null;

  const choose = (wanted) => {
    if (wanted === tab) return;
    list?.end();
    tab = wanted;
    const where = ["admin", "links", name, wanted];
    list = null;
    if (wanted === "topics") list = pagesOf({ where, member: "topics", sort: "seconds", everyMs: TOPICS_MS, render: app.render });
    if (wanted === "groups") list = pagesOf({ where, member: "groups", everyMs: GROUPS_MS, render: app.render });
  };

  return {
    title: () => name,
    route: (_, wanted) => choose(wanted ?? (app.figures ? "topics" : "connectors")),
    close() {
      plots.end();
      list?.end();
    },
    content() {
      const link = app.links.find((each) => each.name === name);
      if (!link) return gone(name);
      if (!app.figures && tab !== "connectors") choose("connectors");
      return [
        heading(link, app),
        elsewhere([link]),
        link.trace ? h("p", { class: "banner", key: "trace" }, "▲ ", link.trace) : null,
        app.figures ? figures(link) : null,
        problemList(link.problems.map((problem) => ({ ...problem, link: name, home: link.home })), app.now(), { more: link.more_problems }),
        app.figures ? plotsOf(hour.points(), app.now()) : null,
        h(
          "section",
          { class: "card", key: "tabs" },
          tabs(link, tab),
          tab === "topics" ? topics(list, name) : tab === "groups" ? groups(list) : connectorTable(link.connectors.map((each) => ({ ...each, link: name, home: link.home }))),
        ),
      ];
    },
  };
}

function gone(name) {
  return h("section", { class: "card empty", key: "gone" }, h("h1", {}, name), h("p", {}, "There is no such link now."), h("a", { href: "#/" }, "All links"));
}

function heading(link, app) {
  return h(
    "div",
    { class: "lead", key: "lead" },
    h("p", { class: "crumbs" }, h("a", { href: "#/" }, "Links")),
    h("h1", {}, `${link.source} → ${link.target}`, " ", f.pill(link.state, link.problems.length + link.more_problems)),
    f.known(link.since_ms) ? h("p", { class: "quiet" }, `${f.stateText(link.state)} for ${f.ago(link.since_ms, app.now())}`) : null,
  );
}

function figures(link) {
  const { lag, rate } = link;
  const behind = f.known(lag.partitions_behind) && f.known(link.partitions) ? `${f.count(lag.partitions_behind)} of ${f.plural(link.partitions, "partition")}` : null;
  const skipped = link.skipped ? ` · ${f.plural(link.skipped, "record")} skipped` : "";
  const unknown = lag.partitions_unknown ? `, ${f.count(lag.partitions_unknown)} unknown` : "";
  return h(
    "dl",
    { class: "figures", key: "figures" },
    figure("Behind", f.or(f.behind(lag), f.seconds), behind ? `${behind}${unknown}` : null),
    figure("Records behind", f.or(lag.records, f.count), null),
    figure("Rate", f.or(rate.records, f.rate), f.known(rate.bytes) ? `${f.bytesRate(rate.bytes)}${skipped}` : skipped || null),
    figure("Latency p99", latency(link), link.latency_ms ? ["p50 ", latency(link, "p50"), " · max ", latency(link, "max")] : null),
  );
}

const figure = (name, value, more) =>
  h("div", { class: "card", key: name }, h("dt", {}, name), h("dd", { class: "value" }, value), h("dd", { class: "quiet small" }, more ?? " "));

function plotsOf(points, now) {
  const common = { points, now };
  return h(
    "section",
    { class: "plots", key: "plots", "aria-label": "The last hour" },
    h("div", { class: "card", key: "lag" }, plot({ ...common, title: "Behind", series: [{ key: "lag_seconds" }], text: f.seconds, least: 1, gaps: true })),
    h("div", { class: "card", key: "rate" }, plot({ ...common, title: "Records", series: [{ key: "records" }], text: f.rate, least: 10, gaps: true })),
    h(
      "div",
      { class: "card", key: "latency" },
      plot({
        ...common,
        title: "Latency",
        series: [
          { key: "latency_p99_ms", label: "p99" },
          { key: "latency_p50_ms", label: "p50" },
        ],
        text: f.millis,
        least: 10,
        gaps: false,
      }),
    ),
  );
}

function tabs(link, tab) {
  const one = (name, text, number) =>
    h("a", { href: linkHref(link.name, name), "aria-current": tab === name ? "page" : null, key: name }, text, " ", h("span", { class: "quiet" }, f.or(number, f.count, "")));
  return h(
    "nav",
    { class: "tabs", "aria-label": "Of this link", key: "tabs" },
    one("topics", "Topics", link.topics),
    one("groups", "Groups", link.groups),
    one("connectors", "Connectors and tasks", link.connectors.length),
  );
}

const loading = (list) => h("p", { class: list.trouble ? "trouble" : "quiet", key: "loading" }, list.trouble ?? "Loading …");

function topics(list, link) {
  return h(
    "div",
    { key: "topics" },
    searchBox(list, "Find a topic"),
    list.trouble || list.rows === null
      ? loading(list)
      : [
          table({
            label: "Topics",
            sorted: list.sort,
            onsort: list.sortBy,
            columns: [
              {
                head: "Topic",
                sort: "name",
                cell: (row) => [
                  h("a", { class: "strong", href: `${linkHref(link, "topics")}/${encodeURIComponent(row.topic)}` }, row.topic),
                  row.problem ? h("span", { class: "trouble small block" }, "▲ ", row.problem) : null,
                ],
              },
              { head: "On the target", cell: (row) => h("span", { class: "quiet" }, row.remote_topic) },
              { head: "Behind", number: true, sort: "seconds", cell: (row) => f.or(f.behind(row.lag), f.seconds) },
              { head: "Records behind", number: true, sort: "lag", cell: (row) => f.or(row.lag.records, f.count) },
              { head: "Rate", number: true, sort: "rate", cell: (row) => f.or(row.rate?.records, f.rate) },
              { head: "Latency p99", number: true, cell: (row) => latency(row) },
              { head: "Partitions", number: true, cell: (row) => f.or(row.partitions, f.count) },
            ],
            rows: list.rows,
            key: (row) => row.topic,
            none: list.search ? `No topic matches ${list.search}.` : "This link copies no topic yet.",
          }),
          pager({ ...list, what: "topic" }),
        ],
  );
}

function groups(list) {
  return h(
    "div",
    { key: "groups" },
    searchBox(list, "Find a group"),
    list.trouble || list.rows === null
      ? loading(list)
      : [
          h("p", { key: "said", class: "said" }, failover(list.rows)),
          table({
            label: "Consumer groups",
            columns: [
              { head: "Group", cell: (row) => h("span", { class: "strong" }, row.group) },
              { head: "Read again", number: true, cell: (row) => f.or(row.read_again, f.count) },
              { head: "Skipped", number: true, cell: (row) => f.or(row.skipped, f.count) },
              { head: "Not translated", number: true, cell: (row) => f.or(row.untranslated, f.count) },
              { head: "Checkpoint latency", number: true, cell: (row) => f.or(row.checkpoint_latency_ms, f.millis) },
              { head: "Synced", cell: (row) => f.or(row.synced_ms, f.moment, "not synced") },
              { head: "Partitions", number: true, cell: (row) => f.or(row.partitions, f.count) },
              { head: "Topics", cell: (row) => h("span", { class: "quiet" }, few(row.topics ?? [])) },
            ],
            rows: list.rows,
            key: (row) => row.group,
            none: list.search ? `No group matches ${list.search}.` : "No group's position is translated yet. A checkpoint connector does that.",
          }),
          pager({ ...list, what: "group" }),
        ],
  );
}

const few = (names) => (names.length > 3 ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more` : names.join(", "));

/** What a failover at this moment would mean for the groups that are shown. */
function failover(rows) {
  const told = rows.filter((row) => f.known(row.read_again) && f.known(row.skipped));
  if (!told.length) return "What a failover now would mean is unknown.";
  const sum = (key) => told.reduce((all, row) => all + row[key], 0);
  const rest = rows.length - told.length;
  return [
    "If you failed over now: ",
    h("b", {}, `${f.plural(sum("read_again"), "record")} read again, ${f.count(sum("skipped"))} skipped`),
    ` by ${f.plural(told.length, "group")} shown here${rest ? `; unknown for ${rest}` : ""}.`,
  ];
}
