// The frame that every chart shares: an SVG as wide as its place, drawn again when that changes, with a text
// alternative; marks that show their tooltip under the pointer and, with the arrow keys, to the keyboard.
function chart({ label, draw }) {
  const figure = element("figure");
  const svg = d3.select(figure).append("svg").attr("class", "chart").attr("role", "img").attr("aria-label", label)
    .attr("tabindex", 0).attr("focusable", "true");
  let drawn = 0;
  const redraw = () => {
    const width = Math.floor(figure.clientWidth);
    if (width < 40) return;
    drawn = width;
    svg.selectAll("*").remove();
    const height = draw(svg, width);
    svg.attr("viewBox", `0 0 ${width} ${height}`);
  };
  new ResizeObserver(() => { if (Math.abs(figure.clientWidth - drawn) > 2) redraw(); }).observe(figure);
  followPointer(svg.node());
  followKeys(svg.node());
  figure.redraw = redraw;
  return figure;
}

// Makes every element of the selection a mark: `tip(datum)` is what it shows.
function asMarks(selection, tip) {
  return selection.classed("mark", true).each(function (datum) { this.tip = () => tip(datum); });
}

function followPointer(svg) {
  svg.addEventListener("pointermove", (event) => {
    if (svg.pointed) return svg.pointed(event);
    const mark = event.target.closest && event.target.closest(".mark");
    if (mark && mark.tip) showTooltip(mark.tip(), event.clientX, event.clientY);
    else hideTooltip();
  });
  svg.addEventListener("pointerleave", () => { if (svg.left) svg.left(); hideTooltip(); });
}

function followKeys(svg) {
  let at = -1;
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    if (svg.stepped) return svg.stepped(step);
    const marks = [...svg.querySelectorAll(".mark")];
    if (marks.length === 0) return;
    if (marks[at]) marks[at].classList.remove("at");
    at = Math.max(0, Math.min(marks.length - 1, at + step));
    marks[at].classList.add("at");
    const box = marks[at].getBoundingClientRect();
    showTooltip(marks[at].tip(), box.left + box.width / 2, box.top + box.height / 2);
  });
  svg.addEventListener("blur", () => {
    svg.querySelectorAll(".at").forEach((mark) => mark.classList.remove("at"));
    if (svg.left) svg.left();
    hideTooltip();
  });
}

// Text on a mark of this colour.
const textOver = (color) => (["var(--c1)", "var(--c5)"].includes(color) ? "var(--on-bright)" : "var(--on-mark)");

const seriesColor = (index) => `var(--c${index % 10})`;

function legend(entries) {
  return element("ul", { class: "legend" }, entries.map(({ name, color, idle }) =>
    element("li", {}, element("i", { style: `--c: ${color}`, class: idle ? "idle" : false, "aria-hidden": "true" }), name)));
}

// A titled card; `wide` ones take the whole row.
function card({ title, about, wide = false, controls = null, body }) {
  const id = newId("card");
  return element("section", { class: wide ? "card wide" : "card", "aria-labelledby": id },
    element("header", {}, element("h3", { id }, title), controls),
    about ? element("p", { class: "about" }, about) : element("div", { style: "height: 8px" }), body);
}

// entries: [[name, value, unit, what stands below]].
function tiles(entries) {
  return element("dl", { class: "tiles" }, entries.filter(Boolean).map(([name, value, unit, below]) =>
    element("div", { class: "tile" }, element("dt", {}, name), element("dd", {}, value, unit ? element("small", {}, ` ${unit}`) : null,
      below ? element("small", { class: "below" }, below) : null))));
}
