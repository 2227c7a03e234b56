// The network from top to bottom: a box a layer, edges that skip layers as arcs beside them, its figures at the right.
// Stages of a pipeline are bands; a split over tensor ranks is named in the box and has a colour at its right edge.
const layerFamilies = [
  { name: "convolution", color: "var(--c0)", types: ["conv2d"] }, { name: "linear", color: "var(--c4)", types: ["linear"] },
  { name: "normalisation", color: "var(--c2)", types: ["batch_norm", "layer_norm"] },
  { name: "activation", color: "var(--c1)", types: ["log_softmax"] },
  { name: "pooling", color: "var(--c5)", types: ["max_pool", "avg_pool", "global_avg_pool"] },
  { name: "join", color: "var(--c3)", types: ["add", "concat"] }, { name: "other", color: "var(--c7)", types: ["flatten", "dropout", "dropout2d", "softmax_cross_entropy", "mse"] },
];
const splitColors = { out_channels: "var(--c9)", in_channels: "var(--c6)", groups: "var(--c4)", rows: "var(--c5)", blocks: "var(--c8)" };
const splitText = (split) => `by ${split.replaceAll("_", " ")}`;
// Activations are many: the report says which layers are.
const familyOf = (layer) => layerFamilies.find((family) => family.name === layer.family || family.types.includes(layer.type)) || layerFamilies[layerFamilies.length - 1];

// Arcs that overlap get lanes of their own.
function skipEdges(layers, rowOf) {
  const edges = [];
  layers.forEach((layer, i) => (layer.in || []).forEach((name) => {
    const from = rowOf.get(name);
    if (from !== undefined && i + 1 - from > 1) edges.push({ from, to: i + 1 });
  }));
  const ends = [];
  for (const edge of edges.sort((a, b) => a.from - b.from || b.to - a.to)) {
    let lane = ends.findIndex((end) => end <= edge.from);
    if (lane < 0) lane = ends.length;
    ends[lane] = edge.to;
    edge.lane = lane;
  }
  return { edges, lanes: ends.length };
}

function networkChart({ label, network }) {
  const layers = network.layers;
  const rows = [{ id: "input", type: "", shape: network.input }, ...layers];
  const rowOf = new Map(rows.map((row, i) => [row.id, i]));
  const { edges, lanes } = skipEdges(layers, rowOf);
  const staged = layers.some((layer) => layer.stage !== undefined);
  const most = d3.max(layers, (layer) => layer.flops) || 1;
  const figure = chart({ label, draw: (svg, width) => {
    const step = 30;
    const head = 20;
    const narrow = width < 620;
    const gutter = Math.min(14 + lanes * 9, width * 0.2);
    const left = (staged ? 30 : 4) + gutter;
    const boxWidth = Math.min(290, width - left - (narrow ? 112 : 330));
    const center = (row) => head + row * step + 15;
    if (staged) for (const [stage, group] of d3.nest().key((row) => row.stage).entries(layers.map((layer, i) => ({ stage: layer.stage, row: i + 1 }))).map(({ key, values }) => [Number(key), values]))
      for (const { row } of group) {
        svg.append("rect").attr("x", 0).attr("width", width).attr("y", head + row * step).attr("height", step).style("fill", seriesColor(stage)).attr("opacity", 0.11);
        if (row === group[0].row) svg.append("text").attr("transform", `translate(15,${head + row * step + 6}) rotate(90)`).attr("class", "strong").attr("font-size", 11)
          .text(group.length > 1 ? `stage ${stage}` : stage);
      }
    for (let i = 1; i < rows.length; ++i)
      if ((rows[i].in || []).includes(rows[i - 1].id))
        svg.append("path").attr("class", "edge").attr("d", `M${left + 24},${center(i - 1) + 12}V${center(i) - 12}`);
    svg.append("g").selectAll("path").data(edges).join("path").attr("class", "edge").attr("d", ({ from, to, lane }) => {
      const out = left - 8 - (gutter - 12) * (lane + 1) / Math.max(1, lanes);
      return `M${left},${center(from) + 5}H${out + 6}Q${out},${center(from) + 5} ${out},${center(from) + 11}V${center(to) - 11}Q${out},${center(to) - 5} ${out + 6},${center(to) - 5}H${left}`;
    });
    const boxes = svg.append("g").selectAll("g").data(rows).join("g").attr("transform", (_, i) => `translate(${left},${head + i * step + 3})`);
    boxes.append("rect").attr("width", boxWidth).attr("height", 24).attr("rx", 5).style("fill", "var(--card)").style("stroke", "var(--line)");
    boxes.append("rect").attr("class", "fill").attr("width", 5).attr("height", 24).attr("rx", 2.5).style("--c", (row) => familyOf(row).color);
    boxes.filter((row) => splitColors[row.split]).append("rect").attr("class", "fill").attr("x", boxWidth - 5).attr("width", 5).attr("height", 24).attr("rx", 2.5).style("--c", (row) => splitColors[row.split]);
    boxes.append("text").attr("class", "strong").attr("x", 14).attr("y", 16).text((row) => clipped(row.id, boxWidth * (row.type && row.id !== row.type && !narrow ? 0.5 : 0.9)));
    if (!narrow) boxes.append("text").attr("x", boxWidth - 12).attr("y", 16).attr("text-anchor", "end")
      .text((row) => (row.type !== row.id ? [row.type, row.split && row.split !== "none" ? splitText(row.split) : ""].filter(Boolean).join(", ") : ""));
    const shapeAt = left + boxWidth + 12;
    const heads = [["layer", left, "start"], ["output", shapeAt, "start"], ...(narrow ? [] : [["parameters", shapeAt + 188, "end"], ["arithmetic forward", shapeAt + 200, "start"]])];
    svg.append("g").selectAll("text").data(heads).join("text").attr("x", ([, at]) => at).attr("y", 12).attr("text-anchor", ([, , anchor]) => anchor).text(([text]) => text);
    boxes.append("text").attr("x", shapeAt - left).attr("y", 16).text((row) => (row.shape || []).join(" × "));
    if (!narrow) {
      boxes.append("text").attr("x", shapeAt + 188 - left).attr("y", 16).attr("text-anchor", "end").text((row) => (row.parameters > 0 ? scaled(row.parameters, "").trim() : ""));
      boxes.append("rect").attr("x", shapeAt + 200 - left).attr("y", 7).attr("height", 10).attr("rx", 2).attr("class", "fill").style("--c", "var(--c7)").attr("opacity", 0.7)
        .attr("width", (row) => Math.max(0, (width - shapeAt - 204) * (row.flops || 0) / most));
    }
    asMarks(boxes.append("rect").attr("width", boxWidth).attr("height", 24).attr("rx", 5).attr("fill", "transparent"), (row) => ({ title: row.id, rows: [
      ...(row.type ? [["type", row.type]] : []), ["shape", (row.shape || []).join(" × ")],
      ...(row.type ? [["parameters", grouped(row.parameters || 0)], ["forward", `${scaled(row.flops, "FLOP")} a batch`]] : []),
      ...(row.stage !== undefined ? [["stage", String(row.stage)]] : []), ...(row.split ? [["split", row.split]] : [])] }));
    return head + rows.length * step + 4;
  } });
  const used = layerFamilies.filter((family) => layers.some((layer) => familyOf(layer) === family));
  const splits = Object.keys(splitColors).filter((split) => layers.some((layer) => layer.split === split));
  return element("div", {}, legend(used), splits.length > 0 ? legend(splits.map((split) => ({ name: `split ${splitText(split)}`, color: splitColors[split] }))) : null, element("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": label }, figure),
    numbersOf(() => plainTable({ caption: label, tall: true, rows: layers, columns: [{ name: "layer", of: (row) => row.id }, { name: "type", of: (row) => row.type },
      { name: "shape", of: (row) => (row.shape || []).join(" × ") }, { name: "parameters", of: (row) => row.parameters, number: true },
      { name: "FLOPs forward", of: (row) => row.flops, number: true }, ...(staged ? [{ name: "stage", of: (row) => row.stage, number: true }] : []),
      ...(layers.some((row) => row.split) ? [{ name: "split", of: (row) => row.split }] : [])] })));
}

function clipped(text, pixels) {
  const most = Math.max(3, Math.floor(pixels / 7.2));
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
