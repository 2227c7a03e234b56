// Elements with their attributes and children. Text is always text: nothing of a run is ever read as HTML.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

let lastId = 0;
function newId(prefix) {
  lastId += 1;
  return `${prefix}-${lastId}`;
}

// A few exclusive choices, as radio buttons: {legend, options: [[value, text]], value, onchange}.
function choice({ legend, options, value, onchange }) {
  const name = newId("choice");
  return element("fieldset", { class: "choice", "aria-label": legend },
    options.map(([option, text]) => element("label", {},
      element("input", { type: "radio", name, value: option, checked: option === value, onchange: () => onchange(option) }), text)));
}
