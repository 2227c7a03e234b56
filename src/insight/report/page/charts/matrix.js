// A matrix as squares whose shade is the value: confusion of classes, bytes between ranks. values[row][column].
// Text on a cell is black or white: nothing else has 4.5:1 on every shade. In between, the theme says which it is.
const textOn = (shade) => (shade > 0.76 ? "cell full" : shade > 0.56 ? "cell between" : "cell");

function matrixChart({ label, names, values, rowName, columnName, text, tipText = text, most = null, side = 460, diagonalApart = false }) {
  const count = values.length;
  const largest = most ?? d3.max(values.flatMap((row, i) => row.filter((_, j) => !diagonalApart || i !== j))) ?? 1;
  const figure = chart({ label, draw: (svg, width) => {
    const longest = d3.max(names, (name) => String(name).length) || 1;
    const left = Math.min(110, 34 + longest * 6.5);
    const size = Math.min(width - left - 4, side);
    const cell = size / count;
    const top = 20;
    const every = Math.max(1, Math.ceil(14 / cell));
    const shade = (value, i, j) => (diagonalApart && i === j ? Math.min(1, value / (d3.sum(values[i]) || 1)) : Math.sqrt(Math.max(0, value) / (largest || 1)));
    svg.append("text").attr("x", left + size / 2).attr("y", 12).attr("text-anchor", "middle").text(columnName);
    svg.append("text").attr("transform", `translate(11,${top + size / 2}) rotate(-90)`).attr("text-anchor", "middle").text(rowName);
    const cells = values.flatMap((row, i) => row.map((value, j) => ({ value, i, j })));
    const squares = svg.append("g").selectAll("rect").data(cells).join("rect").attr("x", ({ j }) => left + j * cell)
      .attr("y", ({ i }) => top + i * cell).attr("width", Math.max(0.5, cell - (cell > 8 ? 1.5 : 0.2))).attr("height", Math.max(0.5, cell - (cell > 8 ? 1.5 : 0.2)))
      .attr("rx", cell > 14 ? 3 : 0)
      .style("fill", ({ value, i, j }) => `color-mix(in srgb, ${diagonalApart && i !== j ? "var(--heat-wrong)" : "var(--heat-high)"} ${(100 * shade(value, i, j)).toFixed(0)}%, var(--heat-low))`);
    asMarks(squares, ({ value, i, j }) => ({ title: `${rowName} ${names[i]}, ${columnName} ${names[j]}`, rows: [["", tipText(value)]] }));
    const longestText = d3.max(cells, ({ value }) => text(value).length) || 1;
    if (cell > 26)
      svg.append("g").selectAll("text").data(cells.filter(({ value }) => value > 0)).join("text").attr("text-anchor", "middle")
        .attr("class", ({ value, i, j }) => (diagonalApart && i !== j ? "cell" : textOn(shade(value, i, j)))).style("pointer-events", "none")
        .attr("x", ({ j }) => left + (j + 0.5) * cell - 0.7).attr("y", ({ i }) => top + (i + 0.5) * cell).attr("dy", ".35em")
        .text(({ value }) => text(value)).attr("font-size", Math.min(12, cell / 3.2, 1.55 * cell / longestText));
    const shown = (_, i) => i % every === 0;
    svg.append("g").selectAll("text").data(names).join("text").filter(shown).attr("x", left - 6).attr("text-anchor", "end")
      .attr("y", (name) => top + (names.indexOf(name) + 0.5) * cell).attr("dy", ".35em").text((name) => String(name).slice(0, 12));
    svg.append("g").selectAll("text").data(names).join("text").filter(shown).attr("text-anchor", "middle")
      .attr("x", (name) => left + (names.indexOf(name) + 0.5) * cell).attr("y", top + size + 15)
      .text((name) => String(name).slice(0, Math.max(2, Math.floor(cell * every / 7))));
    return top + size + 22;
  } });
  return element("div", {}, figure, numbersOf(() => plainTable({ caption: label, rows: values.map((row, i) => ({ row, i })), tall: true,
    columns: [{ name: `${rowName} \\ ${columnName}`, of: ({ i }) => names[i] }, ...names.map((name, j) => ({ name: String(name), of: ({ row }) => row[j], number: true }))] })));
}
