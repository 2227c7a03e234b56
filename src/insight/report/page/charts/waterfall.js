// Why a plan lost: from the winner's step to its own, one bar a cause. parts: [{name, change, color}].
function waterfallChart({ label, from, to, parts }) {
  return chart({ label, draw: (svg, width) => {
    const step = 26;
    const left = Math.min(18 + 7.8 * d3.max([from, to, ...parts], (each) => each.name.length), width * 0.42);
    const right = width - 74;
    const rows = [{ name: from.name, begin: 0, end: from.value, color: "var(--c7)" }];
    let at = from.value;
    for (const part of parts) {
      rows.push({ name: part.name, begin: at, end: at + part.change, color: part.color, change: part.change });
      at += part.change;
    }
    rows.push({ name: to.name, begin: 0, end: to.value, color: "var(--c7)" });
    const x = d3.scaleLinear().domain([Math.min(0, d3.min(rows, (row) => row.end)), d3.max(rows, (row) => Math.max(row.begin, row.end))])
      .range([left, right]);
    rows.forEach((row, i) => {
      const top = i * step + 3;
      svg.append("text").attr("x", left - 8).attr("y", top + 9).attr("dy", ".35em").attr("text-anchor", "end")
        .attr("class", row.change === undefined ? "strong" : null).text(clipped(row.name, left - 10));
      if (i > 0) svg.append("line").attr("class", "cursor").attr("x1", x(row.change === undefined ? row.end : row.begin))
        .attr("x2", x(row.change === undefined ? row.end : row.begin)).attr("y1", top - 8).attr("y2", top);
      asMarks(svg.append("rect").datum(row).attr("class", "fill").style("--c", row.color).attr("rx", 2)
        .attr("x", Math.min(x(row.begin), x(row.end))).attr("width", Math.max(1.5, Math.abs(x(row.end) - x(row.begin))))
        .attr("y", top).attr("height", 18), () => ({ title: row.name, rows: [["", `${row.change > 0 ? "+" : ""}${exact(row.change ?? row.end)} ms`]] }));
      svg.append("text").attr("x", Math.max(x(row.begin), x(row.end)) + 6).attr("y", top + 9).attr("dy", ".35em")
        .text(`${row.change > 0 ? "+" : ""}${msText(row.change ?? row.end)}`);
    });
    return rows.length * step + 4;
  } });
}
