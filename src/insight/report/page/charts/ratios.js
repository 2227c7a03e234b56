// How far figures are from what was predicted: a dot a figure beside the line of 1, on a scale that shows half and twice
// alike. rows: [{name, ratio, tip}].
function ratioChart({ label, rows }) {
  const furthest = Math.max(1.25, 1.15 * (d3.max(rows, (row) => Math.max(row.ratio, 1 / row.ratio)) || 1));
  return chart({ label, draw: (svg, width) => {
    const longest = 20 + 7 * d3.max(rows, (row) => row.name.length);
    const narrow = longest > width * 0.45;  // then names stand above their dots
    const step = narrow ? 36 : 22;
    const names = narrow ? 8 : longest;
    const x = d3.scaleLog().domain([1 / furthest, furthest]).range([names + 16, width - 60]);
    const bottom = rows.length * step + 4;
    const ticks = (narrow ? [0.1, 0.5, 1, 2, 10] : [0.1, 0.25, 0.5, 0.8, 1, 1.25, 2, 4, 10]).filter((tick) => tick >= 1 / furthest && tick <= furthest);
    svg.append("g").attr("class", "rule").selectAll("line").data(ticks).join("line").attr("x1", x).attr("x2", x).attr("y1", 0).attr("y2", narrow ? 0 : bottom);
    svg.append("g").attr("class", "axis").attr("transform", `translate(0,${bottom})`)
      .call(d3.axisBottom(x).tickValues(ticks).tickFormat((tick) => `${tick} ×`).tickSizeOuter(0)).select(".domain").remove();
    svg.append("text").attr("x", width - 60).attr("y", bottom + 34).attr("text-anchor", "end").text("measured to predicted");
    rows.forEach((row, i) => {
      const middle = i * step + (narrow ? 25 : step / 2);
      svg.append("text").attr("x", narrow ? 4 : names).attr("y", narrow ? middle - 14 : middle).attr("dy", narrow ? 0 : ".35em").attr("text-anchor", narrow ? "start" : "end").attr("class", "haloed").text(clipped(row.name, narrow ? width : names));
      svg.append("line").attr("class", "whisker").attr("x1", x(1)).attr("x2", x(1)).attr("y1", middle - 11).attr("y2", middle + 11);
      svg.append("line").attr("class", "stem").attr("x1", x(1)).attr("x2", x(row.ratio)).attr("y1", middle).attr("y2", middle);
      asMarks(svg.append("circle").datum(row).attr("class", "dot").style("--c", "var(--c0)").attr("r", 5).attr("cx", x(row.ratio)).attr("cy", middle), () => ({ title: row.name, rows: row.tip }));
      svg.append("text").attr("x", Math.max(x(1), x(row.ratio)) + 10).attr("y", middle).attr("dy", ".35em").text(`${short(row.ratio)} ×`);
    });
    return bottom + 38;
  } });
}
