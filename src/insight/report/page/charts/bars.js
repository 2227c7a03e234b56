// Horizontal bars: of one value each, with a whisker for the spread; or stacked of parts that have a colour each.
// rows: [{name, note, parts: [{name, value, color, idle}], low, high, best}]; `text` writes a value.
function barChart({ label, rows, text, xName, showLegend = false, gap = 30 }) {
  const total = (row) => d3.sum(row.parts, (part) => part.value || 0);
  const figure = chart({ label, draw: (svg, width) => {
    const longest = d3.max(rows, (row) => row.name.length) || 4;
    const narrow = width < 520 || longest * 7.8 > width * 0.34;  // then names stand above their bars
    const left = narrow ? 4 : 14 + longest * 7.8;
    const step = narrow ? gap + 18 : gap;
    const thick = Math.min(20, gap - 8);
    const right = width - (narrow ? 66 : 84);
    const height = rows.length * step + 40;
    const x = d3.scaleLinear().domain([0, d3.max(rows, (row) => Math.max(total(row), row.high || 0)) || 1]).range([left, right]);
    const ticks = x.ticks(narrow ? 3 : 5);
    svg.append("g").attr("class", "rule").selectAll("line").data(ticks).join("line")
      .attr("x1", x).attr("x2", x).attr("y1", 2).attr("y2", height - 36);
    svg.append("g").attr("class", "axis").attr("transform", `translate(0,${height - 36})`)
      .call(d3.axisBottom(x).tickValues(ticks).tickFormat(xName === "" ? text : (value) => short(value)).tickSizeOuter(0)).select(".domain").remove();
    svg.append("text").attr("x", right).attr("y", height - 3).attr("text-anchor", "end").text(xName);
    rows.forEach((row, i) => {
      const top = i * step + (narrow ? 20 : 4);
      svg.append("text").attr("class", row.best ? "strong" : null).attr("x", narrow ? left : left - 8)
        .attr("y", narrow ? top - 5 : top + thick / 2).attr("dy", narrow ? 0 : ".35em")
        .attr("text-anchor", narrow ? "start" : "end").text(row.name);
      let at = 0;
      for (const part of row.parts.filter((each) => each.value > 0)) {
        const bar = svg.append("rect").datum(part).attr("class", part.idle ? "fill idle" : "fill").style("--c", part.color)
          .attr("x", x(at)).attr("width", Math.max(0.5, x(at + part.value) - x(at))).attr("y", top).attr("height", thick)
          .attr("rx", 2);
        asMarks(bar, () => ({ title: row.name, rows: [[part.name, text(part.value)],
          ...(row.parts.length > 1 ? [["of", text(total(row))]] : []), ...(isNumber(row.low) ? [["rounds", `${text(row.low)} to ${text(row.high)}`]] : []), ...(row.note ? [["", row.note]] : [])] }));
        at += part.value;
      }
      if (isNumber(row.low) && isNumber(row.high)) {
        const middle = top + thick / 2;
        svg.append("path").attr("class", "whisker").attr("d", `M${x(row.low)},${middle}H${x(row.high)}M${x(row.low)},${middle - 4}v8M${x(row.high)},${middle - 4}v8`);
      }
      svg.append("text").attr("class", row.best ? "strong" : null)
        .attr("x", x(Math.max(total(row), row.high || 0)) + 7).attr("y", top + thick / 2).attr("dy", ".35em").text(text(total(row)));
    });
    return height;
  } });
  const kinds = new Map(rows.flatMap((row) => row.parts.map((part) => [part.name, part])));
  return element("div", {}, showLegend ? legend([...kinds.values()]) : null, figure,
    numbersOf(() => plainTable({ caption: label, rows, columns: [{ name: "", of: (row) => row.name },
      ...[...kinds.keys()].map((kind) => ({ name: kind, number: true,
        of: (row) => (row.parts.find((part) => part.name === kind) || {}).value, text: exact }))] })));
}
