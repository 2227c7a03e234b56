// The roofline: what each kernel reaches (GFLOP/s) by how much it computes a byte, under what this machine could do.
const phaseColors = {
  "forward": "var(--c0)", "input gradient": "var(--c1)", "weight gradient": "var(--c2)", "update": "var(--c4)",
  "communication": "var(--c3)", "input": "var(--c5)", "idle": "var(--c6)",
};
const phaseOf = (phase) => ({ name: String(phase || "other"), color: phaseColors[phase] || "var(--c7)" });

// What hardly computes, or takes no time, would only stretch the scales.
const computes = (kernel) => kernel.intensity >= 0.01 && kernel.gflops > 0 && !(kernel.share < 1 / 5000);

function rooflineChart({ label, machine, kernels }) {
  const points = kernels.filter(computes).sort((a, b) => b.total_ms - a.total_ms);
  const peaks = [["fp32_gflops", "fp32", "var(--c3)"], ["bf16_gflops", "bf16", "var(--c6)"]]
    .filter(([key]) => machine[key] > 0).map(([key, name, color]) => ({ gflops: machine[key], name, color }));
  const slopes = [["memory_gbps", "memory", "var(--c7)"], ["cache_gbps", "cache", "var(--c5)"]]
    .filter(([key]) => machine[key] > 0).map(([key, name, color]) => ({ gbps: machine[key], name, color }));
  const top = d3.max(peaks, (peak) => peak.gflops) || d3.max(points, (kernel) => kernel.gflops) || 1;
  const figure = chart({ label, draw: (svg, width) => {
    const height = Math.max(300, Math.min(440, width * 0.5));
    const box = { left: 54, right: width - 16, top: 14, bottom: height - 38 };
    const ridge = slopes.map((slope) => top / slope.gbps);
    const x = d3.scaleLog().range([box.left, box.right]).domain([Math.min(0.05, d3.min(points, (kernel) => kernel.intensity) / 1.6 || 0.05),
      Math.max(100, 3 * (d3.max(ridge) || 1), 2 * (d3.max(points, (kernel) => kernel.intensity) || 1))]);
    const y = d3.scaleLog().range([box.bottom, box.top]).domain([Math.min(1, d3.min(points, (kernel) => kernel.gflops) / 1.6 || 1), 1.6 * Math.max(top, d3.max(points, (kernel) => kernel.gflops) || 0)]);
    for (const [scale, axis] of [[x, d3.axisBottom(x)], [y, d3.axisLeft(y)]]) {
      const flat = scale === x;
      const ticks = logTicks(scale.domain());
      svg.append("g").attr("class", "rule").selectAll("line").data(ticks).join("line")
        .attr("x1", flat ? scale : box.left).attr("x2", flat ? scale : box.right).attr("y1", flat ? box.top : scale).attr("y2", flat ? box.bottom : scale);
      svg.append("g").attr("class", "axis").attr("transform", flat ? `translate(0,${box.bottom})` : `translate(${box.left},0)`)
        .call(axis.tickValues(ticks).tickFormat((value) => short(value)).tickSize(0).tickPadding(8)).select(".domain").remove();
    }
    svg.append("text").attr("x", box.right).attr("y", height - 3).attr("text-anchor", "end").text("FLOP a byte");
    svg.append("text").attr("x", 4).attr("y", 10).text("GFLOP/s");
    const [least, most] = x.domain();
    const floor = y.domain()[0];
    for (const slope of slopes) {
      const begin = Math.max(least, floor / slope.gbps);
      const end = top / slope.gbps;
      svg.append("path").attr("class", "roof").style("--c", slope.color).attr("d", `M${x(begin)},${y(begin * slope.gbps)}L${x(end)},${y(top)}`);
      const at = begin * (end / begin) ** 0.22;  // where there are few kernels
      const angle = Math.atan2(y(top) - y(begin * slope.gbps), x(end) - x(begin)) * 180 / Math.PI;
      svg.append("text").attr("transform", `translate(${x(at)},${y(at * slope.gbps)}) rotate(${angle})`).attr("dy", -6).attr("text-anchor", "middle").attr("class", "haloed")
        .text(`${slope.name} ${short(slope.gbps)} GB/s`);
    }
    for (const peak of peaks) {
      const begin = Math.min(...slopes.map((slope) => peak.gflops / slope.gbps), most);
      svg.append("path").attr("class", "roof").style("--c", peak.color).attr("d", `M${x(Math.max(least, begin))},${y(peak.gflops)}H${box.right}`);
      svg.append("path").attr("class", "roof-guide").style("--c", peak.color).attr("d", `M${box.left + 110},${y(peak.gflops)}H${x(Math.max(least, begin))}`);
      svg.append("text").attr("class", "haloed").attr("x", box.left + 6).attr("y", y(peak.gflops) + 4).text(`${peak.name} ${short(peak.gflops)} GFLOP/s`);
    }
    const radius = d3.scaleSqrt().domain([0, d3.max(points, (kernel) => kernel.total_ms) || 1]).range([3.5, width < 520 ? 13 : 19]);
    asMarks(svg.append("g").selectAll("circle").data(points).join("circle").attr("class", "dot").attr("fill-opacity", 0.78)
      .style("--c", (kernel) => phaseOf(kernel.phase).color).attr("r", (kernel) => radius(kernel.total_ms))
      .attr("cx", (kernel) => x(kernel.intensity)).attr("cy", (kernel) => y(kernel.gflops)), kernelTip);
    return height;
  } });
  const used = [...new Set(points.map((kernel) => kernel.phase))];
  return element("div", {}, legend(used.map(phaseOf)), figure);
}

function kernelTip(kernel) {
  return { title: `${kernel.name}${kernel.layer ? ` of ${kernel.layer}` : ""} (${phaseOf(kernel.phase).name})`, rows: [
    ["time", `${exact(kernel.total_ms)} ms`], ["share", percent(kernel.share)], ["rate", `${exact(kernel.gflops)} GFLOP/s`],
    ["traffic", `${exact(kernel.gbps)} GB/s`], ["FLOP a byte", exact(kernel.intensity)], ["of the roof", `${exact(kernel.roof_percent)} %`],
    ...(kernel.bound ? [["bound by", kernel.bound]] : []), ...(kernel.implementation ? [["by", kernel.implementation]] : [])] };
}
