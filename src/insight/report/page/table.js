// Tables that sort by a click on a column and, if asked, filter by a search field; and the numbers behind a chart.
// columns: [{name, of: (row) => value, text: (value, row) => string, number, wrap, head, bar: (row) => share}].
function plainTable({ caption, columns, rows, tall = false, sortable = false, headless = false, frozen = false, filter = null }) {
  const body = element("tbody");
  let shown = rows;
  let sorted = null;
  const cell = (column, row) => {
    const value = column.of(row);
    const share = column.bar ? column.bar(row) : 0;
    return element(column.head ? "th" : "td", { class: column.number ? "number" : column.wrap ? "wrap" : false, scope: column.head ? "row" : false,
      style: share > 0 ? `--share: ${(100 * Math.min(1, share)).toFixed(1)}%` : false },
      column.text ? column.text(value, row) : value === undefined || value === null ? "" : String(value));
  };
  const count = element("span", { role: "status", class: "about" });
  const fill = () => {
    body.replaceChildren(...shown.map((row) => element("tr", {}, columns.map((column) => cell(column, row)))));
    if (filter) count.textContent = `${grouped(shown.length)} of ${grouped(rows.length)}`;
  };
  const sort = () => {
    if (!sorted) return;
    const way = sorted.descending ? d3.descending : d3.ascending;
    shown = [...shown].sort((a, b) => way(sorted.column.of(a), sorted.column.of(b)));
  };
  const heads = columns.map((column) => element("th", { scope: "col", class: column.number ? "number" : false },
    sortable ? element("button", { type: "button", onclick: () => {
      sorted = { column, descending: sorted && sorted.column === column ? !sorted.descending : Boolean(column.number) };
      heads.forEach((head, i) => head.setAttribute("aria-sort",
        columns[i] !== column ? "none" : sorted.descending ? "descending" : "ascending"));
      sort();
      fill();
    } }, column.name) : column.name));
  const table = element("div", { class: ["scroll", tall && "tall", frozen && "frozen"].filter(Boolean).join(" "), role: "region", tabindex: 0, "aria-label": caption },
    element("table", {}, element("caption", {}, caption), element("thead", { class: headless ? "hidden" : false }, element("tr", {}, heads)), body));
  fill();
  if (!filter) return table;
  const search = element("input", { type: "search", placeholder: filter, "aria-label": filter, oninput: (event) => {
    const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (row) => columns.map((column) => String(column.of(row))).join(" ").toLowerCase();
    shown = rows.filter((row) => words.every((word) => text(row).includes(word)));
    sort();
    fill();
  } });
  return element("div", {}, element("div", { class: "bar" }, search, count), table);
}

// A chart's numbers, made when somebody asks for them.
function numbersOf(make, title = "The numbers") {
  const details = element("details", {}, element("summary", {}, title));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(make());
  });
  return details;
}
