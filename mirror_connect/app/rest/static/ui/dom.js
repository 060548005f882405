// Elements, and how a view takes the place of the one before: only what differs is touched, so that focus, selection and
// scrolling stay where they are.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. Attributes that are null, undefined or false are left out; `on…` are handlers, `key` names a sibling. */
export function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** An SVG element, as `h`. */
export function s(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** An element that draws itself: `mount(element)` is called once it is shown, and gives what is called with newer `data`. */
export function component(tag, attributes, mount, data) {
  const element = h(tag, attributes);
  element.$mount = mount;
  element.$data = data;
  return element;
}

/** Shows these children in an element, in the place of those before. */
export function show(parent, ...children) {
  patchChildren(parent, flat(children));
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "key") element.$key = String(value);
    else if (name.startsWith("on")) (element.$handlers ??= {})[name] = element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...flat(children));
  return element;
}

function flat(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}

function patchChildren(parent, fresh) {
  const keyed = new Map();
  for (const child of parent.childNodes) if (child.$key !== undefined) keyed.set(child.$key, child);
  let place = parent.firstChild;
  for (const wanted of fresh) {
    let found = wanted.$key === undefined ? place : keyed.get(wanted.$key);
    if (!found || !alike(found, wanted)) found = null;
    if (found === null) {
      parent.insertBefore(wanted, place);
      mounted(wanted);
      continue;
    }
    if (found === place) place = place.nextSibling;
    else parent.insertBefore(found, place);
    patch(found, wanted);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function alike(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && one.$key === other.$key && one.$mount === other.$mount;
}

function patch(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const { name } of [...old.attributes]) {
    // Whether it is open is the reader's choice.
    if (!fresh.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
  }
  for (const name of Object.keys(old.$handlers ?? {})) if (!fresh.$handlers?.[name]) old[name] = null;
  for (const [name, handler] of Object.entries(fresh.$handlers ?? {})) old[name] = handler;
  old.$handlers = fresh.$handlers;
  if (old.$mount) old.$update(fresh.$data);
  else patchChildren(old, [...fresh.childNodes]);
}

function mounted(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return;
  if (node.$mount) {
    node.$update = node.$mount(node);
    node.$update(node.$data);
  }
  for (const child of node.children) mounted(child);
}
