// All links: the picture, what needs attention, and the figures side by side.

import { h } from "./dom.js";
import * as f from "./format.js";
import { picture } from "./picture.js";
import { problemList } from "./problems.js";
import { table } from "./table.js";

export function overview(app) {
  return { title: () => "Links", content: () => content(app) };
}

const problemsOf = (link) => link.problems.length + link.more_problems;
export const linkHref = (name, tab) => `#/links/${encodeURIComponent(name)}${tab ? `/${tab}` : ""}`;

function content(app) {
  const { links } = app;
  if (!links.length) return empty(app);
  return [
    h("div", { class: "lead", key: "lead" }, h("h1", {}, "Links"), h("p", { class: "quiet" }, summary(app))),
    elsewhere(links),
    h("section", { class: "card center", key: "picture" }, picture(links)),
    problemList(links.flatMap((link) => link.problems.map((problem) => ({ ...problem, link: link.name, home: link.home }))), app.now(), {
      more: links.reduce((sum, link) => sum + link.more_problems, 0),
    }),
    h("section", { class: "card", key: "links" }, linkTable(links)),
  ];
}

function empty(app) {
  return h(
    "section",
    { class: "card empty", key: "empty" },
    h("h1", {}, "No links yet"),
    h("p", {}, "A link begins with a connector that copies topics from one cluster to another."),
    app.readOnly ? null : h("a", { class: "button primary", href: "#/create" }, "Create a connector"),
  );
}

function summary({ links, figures }) {
  const troubled = links.filter((link) => link.state !== "RUNNING" || problemsOf(link));
  const well = links.length - troubled.length;
  const said = troubled.length
    ? `${well || "None"} of ${f.plural(links.length, "link")} ${well > 1 ? "are" : "is"} running without problems.`
    : `${f.plural(links.length, "link")}, running without problems.`;
  if (!figures) return `${said} This address tells no figures: /admin/links is not served here.`;
  const ages = links.map((link) => f.behind(link.lag));
  const unknown = ages.filter((age) => !f.known(age)).length;
  const oldest = Math.max(0, ...ages.filter(f.known));
  if (unknown === links.length) return `${said} How far they are behind is unknown.`;
  const farthest = oldest ? `The farthest is ${f.seconds(oldest)} behind` : "None is behind";
  return `${said} ${farthest}${unknown ? `, and ${f.plural(unknown, "lag")} ${unknown > 1 ? "are" : "is"} unknown` : ""}.`;
}

function linkTable(links) {
  return table({
    label: "Links",
    columns: [
      { head: "Link", cell: (link) => h("a", { class: "strong", href: linkHref(link.name) }, `${link.source} → ${link.target}`) },
      { head: "State", cell: (link) => f.pill(link.state, problemsOf(link)) },
      { head: "Behind", number: true, cell: (link) => f.or(f.behind(link.lag), f.seconds) },
      { head: "Records behind", number: true, cell: (link) => f.or(link.lag.records, f.count) },
      { head: "Rate", number: true, cell: (link) => f.or(link.rate.records, f.rate) },
      { head: "Bytes", number: true, cell: (link) => f.or(link.rate.bytes, f.bytesRate) },
      { head: "Latency p99", number: true, cell: (link) => latency(link) },
      { head: "Topics", number: true, cell: (link) => f.or(link.topics, f.count) },
      { head: "Groups", number: true, cell: (link) => f.or(link.groups, f.count) },
    ],
    rows: links,
    key: (link) => link.name,
  });
}

/** The line about workers whose tasks this one knows nothing of. */
export function elsewhere(links) {
  const silent = [...new Set(links.flatMap((link) => link.unknown_workers))].sort();
  if (silent.length) {
    const line = `Figures of tasks at ${silent.join(", ")} are unknown: this worker gets no answer from there. Sums leave these tasks out.`;
    return h("p", { class: "banner", key: "elsewhere" }, "▲ ", line);
  }
  const untold = links.filter((link) => !link.leads && !link.told);
  if (!untold.length) return null;
  const url = untold.find((link) => link.leader_url)?.leader_url;
  return h(
    "p",
    { class: "banner", key: "elsewhere" },
    `This worker knows no figures and no problems of ${untold.length === 1 ? untold[0].name : f.plural(untold.length, "link")}. `,
    url ? ["The leader is ", h("a", { href: new URL("ui", url).href }, url)] : "The worker that leads is not known now",
    ".",
  );
}

/** Without records there is no latency: that is not unknown. Where not even the rate is known, it is. */
export const latency = ({ latency_ms, rate }, which = "p99") => f.or(latency_ms?.[which], f.millis, f.known(rate?.records) ? "no records" : "unknown");
