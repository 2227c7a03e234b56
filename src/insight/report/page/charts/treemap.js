// Where the time goes: an area a layer, in it one a phase, as large as their milliseconds.
function timeTreemap({ label, kernels }) {
  const layers = d3.nest().key((kernel) => kernel.layer || kernel.name).key((kernel) => kernel.phase || "").rollup((list) => d3.sum(list, (kernel) => kernel.total_ms)).entries(kernels);
  const total = d3.sum(kernels, (kernel) => kernel.total_ms);
  const figure = chart({ label, draw: (svg, width) => {
    const height = width < 520 ? 380 : 340;
    const root = d3.hierarchy({ values: layers }, (node) => node.values).sum((node) => (typeof node.value === "number" ? node.value : 0)).sort((a, b) => b.value - a.value);
    d3.treemap().size([width, height]).paddingInner(1).paddingOuter(1).paddingTop((node) => (node.depth === 1 && node.y1 - node.y0 > 30 && node.x1 - node.x0 > 34 ? 17 : 1)).round(true)(root);
    for (const layer of root.children || []) {
      const titled = layer.y1 - layer.y0 > 30 && layer.x1 - layer.x0 > 34;
      svg.append("rect").attr("x", layer.x0).attr("y", layer.y0).attr("width", layer.x1 - layer.x0).attr("height", layer.y1 - layer.y0)
        .style("fill", "var(--grid)").attr("rx", 3);
      if (titled) svg.append("text").attr("class", "strong").attr("x", layer.x0 + 5).attr("y", layer.y0 + 13)
        .text(clipped(layer.data.key, layer.x1 - layer.x0 - 6));
    }
    const leaves = root.leaves();
    asMarks(svg.append("g").selectAll("rect").data(leaves).join("rect").attr("class", "fill").attr("rx", 2)
      .style("--c", (leaf) => phaseOf(leaf.data.key).color).attr("x", (leaf) => leaf.x0).attr("y", (leaf) => leaf.y0)
      .attr("width", (leaf) => Math.max(0, leaf.x1 - leaf.x0)).attr("height", (leaf) => Math.max(0, leaf.y1 - leaf.y0)),
    (leaf) => ({ title: `${leaf.parent.data.key}, ${phaseOf(leaf.data.key).name}`,
      rows: [["time", `${exact(Number(leaf.value.toPrecision(6)))} ms`], ["of all", percent(leaf.value / total)], ["the layer", msText(leaf.parent.value)]] }));
    svg.append("g").selectAll("text").data(leaves.filter((leaf) => leaf.x1 - leaf.x0 > 58 && leaf.y1 - leaf.y0 > 20)).join("text").attr("class", "on")
      .style("fill", (leaf) => textOver(phaseOf(leaf.data.key).color))
      .attr("x", (leaf) => leaf.x0 + 5).attr("y", (leaf) => leaf.y0 + 15).text((leaf) => msText(leaf.value));
    return height;
  } });
  const used = [...new Set(kernels.map((kernel) => kernel.phase))];
  return element("div", {}, legend(used.map(phaseOf)), figure,
    numbersOf(() => plainTable({ caption: label, tall: true, rows: layers.map((layer) => ({ key: layer.key, ms: d3.sum(layer.values, (each) => each.value) })).sort((a, b) => b.ms - a.ms),
      columns: [{ name: "layer", of: (row) => row.key }, { name: "ms", of: (row) => row.ms, text: (ms) => short(ms, 5), number: true },
        { name: "share", of: (row) => row.ms / total, text: (share) => percent(share), number: true }] })));
}
