// Lines over steps or seconds. series: [{name, x: [..], y: [..], low, high, color, dots, width, dashed}]; low and high are the band that
// a point's values lie in. Pointer and arrow keys move a cursor over the points.
function lineChart({ label, series, xName, yName, log = false, height = 220, xText = grouped, highest = Infinity }) {
  const lines = series.filter((line) => line.x.length > 0);
  const lower = (line, i) => (line.low ? line.low[i] : line.y[i]);
  const upper = (line, i) => (line.high ? line.high[i] : line.y[i]);
  const figure = chart({ label, draw: (svg, width) => {
    const box = { left: 54, right: width - 14, top: 10, bottom: height - 34 };
    const values = lines.flatMap((line) => line.y.flatMap((_, i) => [lower(line, i), upper(line, i)])).filter(isNumber);
    const usable = log ? values.filter((value) => value > 0) : values;
    const [least, most] = d3.extent(usable.length > 0 ? usable : [0, 1]);
    const x = d3.scaleLinear().domain(d3.extent(lines.flatMap((line) => line.x))).range([box.left, box.right]);
    const flat = least === most;
    const spare = flat ? Math.abs(most) * 0.25 || 1 : (most - least) * 0.04;
    const bottom = flat && most >= 0 ? 0 : least >= 0 ? Math.max(0, least - spare) : least - spare;
    const y = log ? d3.scaleLog().domain([least / 1.15, most * 1.15]).range([box.bottom, box.top])
      : d3.scaleLinear().domain(d3.scaleLinear().domain([bottom, most + spare]).nice(5).domain().map((end) => Math.min(end, highest))).range([box.bottom, box.top]);
    const seen = (value) => isNumber(value) && (!log || value > 0);
    const ticks = log ? logTicks(y.domain()) : y.ticks(flat && most === 0 ? 1 : 5);
    const size = Math.max(...y.domain().map(Math.abs));
    const tickText = log || size >= 1e6 || size < 1e-3 ? (value) => short(value) : y.tickFormat(5, size >= 10 ? ",~f" : undefined);
    svg.append("g").attr("class", "rule").selectAll("line").data(ticks).join("line")
      .attr("x1", box.left).attr("x2", box.right).attr("y1", y).attr("y2", y);
    svg.append("g").attr("class", "axis").attr("transform", `translate(0,${box.bottom})`)
      .call(d3.axisBottom(x).tickValues(x.ticks(Math.max(3, Math.floor(width / 110))).filter((tick) => xName !== "step" || Number.isInteger(tick))).tickFormat(xText).tickSizeOuter(0));
    svg.append("g").attr("class", "axis").attr("transform", `translate(${box.left},0)`)
      .call(d3.axisLeft(y).tickValues(ticks).tickFormat(tickText).tickSize(0).tickPadding(8))
      .select(".domain").remove();
    svg.append("text").attr("x", box.right).attr("y", height - 3).attr("text-anchor", "end").text(xName);
    for (const line of lines) {
      const points = line.x.map((at, i) => ({ at, i })).filter(({ i }) => seen(line.y[i]));
      const group = svg.append("g").style("--c", line.color);
      if (line.low && line.high)
        group.append("path").attr("class", "band").attr("d", d3.area().x(({ at }) => x(at))
          .y0(({ i }) => y(seen(lower(line, i)) ? lower(line, i) : line.y[i])).y1(({ i }) => y(upper(line, i)))(points));
      group.append("path").attr("class", "line").style("stroke-width", line.width || null).attr("stroke-dasharray", line.dashed ? "5 4" : null).attr("d", d3.line().x(({ at }) => x(at)).y(({ i }) => y(line.y[i]))(points));
      if (line.dots || points.length === 1)
        group.selectAll("circle").data(points).join("circle").attr("class", "dot").attr("r", points.length > 60 ? 2.5 : 4)
          .attr("cx", ({ at }) => x(at)).attr("cy", ({ i }) => y(line.y[i]));
    }
    addCursor(svg, { lines, x, y, box, seen, xName, xText });
    return height;
  } });
  return element("div", {}, lines.length > 1 ? legend(lines) : null, figure,
    numbersOf(() => lineNumbers({ label, lines, xName, yName })));
}

// Powers of ten, or, where there are hardly any, their halves and fifths too.
function logTicks([least, most]) {
  const all = (factors) => d3.range(Math.floor(Math.log10(least)), Math.ceil(Math.log10(most)) + 1)
    .flatMap((power) => factors.map((factor) => Number((factor * 10 ** power).toPrecision(3))))
    .filter((tick) => tick >= least && tick <= most);
  const powers = all([1]);
  if (powers.length > 7) return powers.filter((_, i) => i % Math.ceil(powers.length / 6) === 0);
  return powers.length >= 3 ? powers : all([1, 2, 5]);
}

function addCursor(svg, { lines, x, y, box, seen, xName, xText }) {
  const places = [...new Set(lines.flatMap((line) => line.x))].sort(d3.ascending);
  const rule = svg.append("line").attr("class", "cursor").attr("y1", box.top).attr("y2", box.bottom).style("display", "none");
  const dots = svg.append("g");
  const node = svg.node();
  let at = -1;
  const nearest = (line, place) => {
    const right = Math.min(line.x.length - 1, d3.bisectLeft(line.x, place));
    const left = Math.max(0, right - 1);
    return Math.abs(line.x[left] - place) < Math.abs(line.x[right] - place) ? left : right;
  };
  const show = (index, clientX, clientY) => {
    at = Math.max(0, Math.min(places.length - 1, index));
    const place = places[at];
    const found = lines.map((line) => ({ line, i: nearest(line, place) })).filter(({ line, i }) => seen(line.y[i]));
    rule.style("display", null).attr("x1", x(place)).attr("x2", x(place));
    dots.selectAll("circle").data(found).join("circle").attr("class", "dot").attr("r", 4.5)
      .style("--c", ({ line }) => line.color).attr("cx", ({ line, i }) => x(line.x[i])).attr("cy", ({ line, i }) => y(line.y[i]));
    const rows = found.flatMap(({ line, i }) => [[line.name, exact(line.y[i])],
      ...(line.low ? [["least to most", `${exact(line.low[i])} to ${exact(line.high[i])}`]] : [])]);
    const frame = node.getBoundingClientRect();
    const scale = frame.width / node.viewBox.baseVal.width;
    showTooltip({ title: `${xName} ${xText(place)}`, rows }, clientX ?? frame.left + x(place) * scale, clientY ?? frame.top + 20);
  };
  node.pointed = (event) => {
    const frame = node.getBoundingClientRect();
    const place = x.invert((event.clientX - frame.left) * node.viewBox.baseVal.width / frame.width);
    const right = d3.bisectLeft(places, place);
    const closer = right > 0 && place - places[right - 1] < (places[right] ?? Infinity) - place ? right - 1 : right;
    show(closer, event.clientX, event.clientY);
  };
  node.stepped = (step) => show(at + step);
  node.left = () => { rule.style("display", "none"); dots.selectAll("*").remove(); };
}

function lineNumbers({ label, lines, xName, yName }) {
  const places = [...new Set(lines.flatMap((line) => line.x))].sort(d3.ascending);
  const value = lines.map((line) => new Map(line.x.map((place, i) => [place, line.y[i]])));
  return plainTable({ caption: label, tall: true, rows: places, columns: [{ name: xName, of: (place) => place, number: true },
    ...lines.map((line, i) => ({ name: line.name || yName, of: (place) => value[i].get(place), number: true,
      text: (each) => (each === undefined ? "" : exact(each)) }))] });
}
