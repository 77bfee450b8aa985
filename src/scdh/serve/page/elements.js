// Parts of the page. Names and labels are untrusted: they are only ever set as text.

export function byId(id) {
  return document.getElementById(id);
}

// An element with a class, its attributes, and its contents: elements or text.
export function make(kind, className, attributes = {}, ...contents) {
  const made = document.createElement(kind);
  if (className) made.className = className;
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...contents.filter((part) => part !== null && part !== undefined));
  return made;
}

export function makeSvg(kind, attributes = {}, ...contents) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...contents);
  return made;
}

// Whether the number of bits that differ ranks, or a distance of the method's own.
export const isByBits = (info) => info.model.ranking === "Hamming distance";

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

// What a name ends with; the whole name is in the title.
export function shortName(name) {
  return name.split(/[\\/]/).filter(Boolean).pop() || name;
}

// A label of a table has its column before it, as in "kind=Apple": the column, or null, and the value.
export function labelParts(label) {
  const [, column = null, value = label] = /^([^=\s]+)=(.+)$/s.exec(label) ?? [];
  return { column, value };
}

export function labelText(labels) {
  return labels.map((label) => labelParts(label).value).join(" · ");
}

// A box in the place of results: what is so, and buttons [text, what it does] for what can be done; null is left out.
export function panel(title, text, { wrong = false, actions = [] } = {}) {
  const box = make("div", wrong ? "panel wrong" : "panel", {}, make("h3", "", {}, title), make("p", "", {}, text));
  const buttons = actions.filter(Boolean).map(([label, act], place) => {
    const button = make("button", place ? "button" : "button primary", { type: "button" }, label);
    button.addEventListener("click", act);
    return button;
  });
  if (buttons.length) box.append(make("div", "panel-buttons", {}, ...buttons));
  return box;
}

// For those who listen to the page.
export function announce(text) {
  byId("status").textContent = text;
}
