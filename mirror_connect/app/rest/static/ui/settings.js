// How the settings that a validation answers become the sections of a form.

/** What a mirror needs, in the order in which people think of it. */
const ESSENTIAL = [
  "source.cluster.alias",
  "source.cluster.bootstrap.servers",
  "target.cluster.alias",
  "target.cluster.bootstrap.servers",
  "topics",
  "topics.exclude",
  "groups",
  "groups.exclude",
  "tasks.max",
];
// Client settings have prefixes and no definitions; nobody can do without these two.
const OWN = {
  "source.cluster.bootstrap.servers": "Brokers of the source cluster: host:port, comma separated.",
  "target.cluster.bootstrap.servers": "Brokers of the target cluster: host:port, comma separated.",
};
const SECURITY = /^(ssl|sasl|security)\./;
const ASIDE = new Set(["name", "connector.class"]);

/** Sections of a validation's answer: [{title, fields: [{definition, errors, recommended}]}]. */
export function sectionsOf(answer) {
  const fields = new Map();
  for (const { definition, value } of answer.configs) {
    if (definition) fields.set(definition.name, { definition, errors: value.errors, recommended: value.recommended_values ?? [], visible: value.visible });
  }
  for (const [name, documentation] of Object.entries(OWN)) {
    const definition = { name, type: "LIST", required: true, default_value: null, importance: "HIGH", documentation };
    fields.set(name, { definition, errors: errorsOf(answer, name), recommended: [], visible: true });
  }
  const sections = [{ title: "Essentials", fields: ESSENTIAL.filter((name) => fields.has(name)).map((name) => fields.get(name)) }];
  const placed = new Set([...ESSENTIAL, ...ASIDE]);
  const groups = new Map([["Mirroring", []], ["Security", []], ...answer.groups.map((group) => [group, []])]);
  for (const [name, field] of fields) {
    if (placed.has(name)) continue;
    const group = field.definition.group ?? (SECURITY.test(name) ? "Security" : "Mirroring");
    if (!groups.has(group)) groups.set(group, []);
    groups.get(group).push(field);
  }
  for (const [title, members] of groups) if (members.length) sections.push({ title, fields: members });
  return sections;
}

/** The errors of one setting, also of one that has no definition. */
export const errorsOf = (answer, name) => answer?.configs.find(({ value }) => value.name === name)?.value.errors ?? [];

/** Whether a setting has a field of its own; all others are rows of name and value. */
export const hasField = (answer, name) => name in OWN || ASIDE.has(name) || answer.configs.some(({ definition }) => definition?.name === name);

/** What differs: [{key, before, after}], undefined where a side does not have it. */
export function difference(before, after) {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .sort()
    .filter((key) => before[key] !== after[key])
    .map((key) => ({ key, before: before[key], after: after[key] }));
}
