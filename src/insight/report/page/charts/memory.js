// Memory over one step: who holds how much at each kernel, stacked by kind; or where each thing lies, address by time.
const memoryColors = {
  "parameters": "var(--c0)", "optimiser state": "var(--c9)", "weight gradients": "var(--c4)", "layer states": "var(--c8)", "batch": "var(--c6)",
  "communication": "var(--c3)", "parameter copies": "color-mix(in srgb, var(--c0) 55%, var(--card))", "kept activations": "var(--c2)",
  "passing activations": "var(--c5)", "activation gradients": "var(--c1)", "scratch": "var(--c7)",
};
const freeMemory = { name: "free", color: "var(--c7)", idle: true };

// The timeline with its indices resolved: lives as objects, bytes by moment and kind.
function readMemory(timeline, kinds) {
  const { moments, layers } = timeline;
  const owners = timeline.owners.map(([name, layer, kind]) => ({ name, layer: layers[layer], kind: kinds[kind] }));
  const lives = timeline.lives.map(([owner, first, last, offset, bytes]) => ({ ...owners[owner], first, last, offset, bytes }));
  const count = moments.node.length;
  const used = kinds.filter((kind) => owners.some((owner) => owner.kind === kind));
  const sums = new Map(used.map((kind) => [kind, new Float64Array(count + 1)]));
  for (const life of lives) {
    sums.get(life.kind)[life.first] += life.bytes;
    sums.get(life.kind)[life.last + 1] -= life.bytes;
  }
  for (const sum of sums.values()) for (let i = 1; i <= count; ++i) sum[i] += sum[i - 1];
  const several = new Set(moments.micro_batch).size > 1;
  return { timeline, lives, count, used, sums,
    nameOf: (i) => timeline.nodes[moments.node[i]] + (several ? `, micro-batch ${moments.micro_batch[i]}` : ""),
    beginOf: (i) => (i < count ? moments.begin_ms[i] : timeline.end_ms),
    liveAt: (i) => lives.filter((life) => life.first <= i && i <= life.last).sort((a, b) => b.bytes - a.bytes),
    totalAt: (i) => d3.sum(used, (kind) => sums.get(kind)[i]) };
}

const ownerText = (life) => (life.layer && !life.name.startsWith(life.layer) ? `${life.layer}: ${life.name}` : life.name);

function memoryTip(memory, i) {
  const live = memory.liveAt(i);
  const shown = live.slice(0, 9);
  const rest = live.slice(shown.length);
  return { title: memory.nameOf(i), rows: [["held", `${bytesText(memory.totalAt(i))} of ${bytesText(memory.timeline.bytes)}`],
    ...shown.map((life) => [`${ownerText(life)} · ${life.kind}`, bytesText(life.bytes)]),
    ...(rest.length > 0 ? [[`${grouped(rest.length)} others`, bytesText(d3.sum(rest, (life) => life.bytes))]] : [])] };
}

// Both pictures share the frame: bytes upwards, the step to the right.
function memoryFrame(svg, width, { memory, byTime, height }) {
  const box = { left: 62, right: width - 12, top: 22, bottom: height - 38 };
  const place = byTime ? memory.beginOf : (i) => i;
  const x = d3.scaleLinear().domain([place(0), byTime ? memory.timeline.end_ms : memory.count]).range([box.left, box.right]);
  const y = d3.scaleLinear().domain([0, memory.timeline.bytes]).range([box.bottom, box.top]);
  const ticks = byteTicks(memory.timeline.bytes);
  svg.append("rect").attr("class", "fill idle").attr("x", box.left).attr("width", box.right - box.left).attr("y", box.top).attr("height", box.bottom - box.top);
  svg.append("g").attr("class", "axis").attr("transform", `translate(${box.left},0)`)
    .call(d3.axisLeft(y).tickValues(ticks).tickFormat(bytesText).tickSize(0).tickPadding(8)).select(".domain").remove();
  svg.append("g").attr("class", "axis").attr("transform", `translate(0,${box.bottom})`)
    .call(d3.axisBottom(x).ticks(Math.max(3, Math.floor(width / 120))).tickFormat((value) => (byTime ? short(value, 4) : grouped(value))).tickSizeOuter(0));
  svg.append("text").attr("x", box.right).attr("y", height - 3).attr("text-anchor", "end").text(byTime ? "ms since the step's first kernel" : "kernels run");
  return { box, x, y, at: (i) => x(place(i)) };
}

// Round numbers of bytes, about five of them.
function byteTicks(most) {
  const unit = 10 ** Math.floor(Math.log10(most / 4 || 1));
  const step = [1, 2, 5, 10].map((factor) => factor * unit).find((each) => most / each <= 5.5);
  return d3.range(0, most * 1.0001, step);
}

function drawMemoryByKind(svg, width, memory, byTime) {
  const height = Math.max(280, Math.min(380, width * 0.42));
  const { box, x, y, at } = memoryFrame(svg, width, { memory, byTime, height });
  const edges = d3.range(memory.count + 1);
  const floor = new Float64Array(memory.count + 1);
  for (const kind of memory.used) {
    const sum = memory.sums.get(kind);
    const below = Float64Array.from(floor);
    for (let i = 0; i < memory.count; ++i) floor[i] += sum[i];
    floor[memory.count] = floor[memory.count - 1];  // the last step of a staircase needs an end
    below[memory.count] = below[memory.count - 1];
    const above = Float64Array.from(floor);
    svg.append("path").attr("class", "fill").style("--c", memoryColors[kind])
      .attr("d", d3.area().curve(d3.curveStepAfter).x(at).y0((i) => y(below[i])).y1((i) => y(above[i]))(edges));
  }
  const peak = memory.timeline.peak_moment;
  const peakAt = (at(peak) + at(peak + 1)) / 2;
  svg.append("line").attr("class", "peak").attr("x1", peakAt).attr("x2", peakAt).attr("y1", box.top - 4).attr("y2", y(memory.timeline.peak_bytes));
  svg.append("text").attr("class", "strong").attr("x", Math.min(Math.max(peakAt, box.left + 60), box.right - 60)).attr("y", box.top - 8).attr("text-anchor", "middle")
    .text(`peak ${bytesText(memory.timeline.peak_bytes)}`);
  addMomentCursor(svg, { memory, x, box, at, byTime });
  return height;
}

function addMomentCursor(svg, { memory, x, box, at, byTime }) {
  const band = svg.append("rect").attr("class", "moment").attr("y", box.top).attr("height", box.bottom - box.top).style("display", "none");
  const node = svg.node();
  let moment = memory.timeline.peak_moment;
  const show = (index, clientX, clientY) => {
    moment = Math.max(0, Math.min(memory.count - 1, index));
    band.style("display", null).attr("x", at(moment)).attr("width", Math.max(1.5, at(moment + 1) - at(moment)));
    const frame = node.getBoundingClientRect();
    showTooltip(memoryTip(memory, moment), clientX ?? frame.left + at(moment) * frame.width / node.viewBox.baseVal.width, clientY ?? frame.top + 30);
  };
  node.pointed = (event) => {
    const frame = node.getBoundingClientRect();
    const value = x.invert((event.clientX - frame.left) * node.viewBox.baseVal.width / frame.width);
    show(byTime ? d3.bisectRight(memory.timeline.moments.begin_ms, value) - 1 : Math.floor(value), event.clientX, event.clientY);
  };
  node.stepped = (step) => show(moment + step);
  node.left = () => band.style("display", "none");
}

function drawMemoryByAddress(svg, width, memory, byTime) {
  const height = Math.max(340, Math.min(520, width * 0.5));
  const { box, y, at } = memoryFrame(svg, width, { memory, byTime, height });
  const node = svg.node();
  node.pointed = node.stepped = node.left = null;
  const lives = [...memory.lives].sort((a, b) => b.bytes - a.bytes);  // the keyboard meets the largest first
  asMarks(svg.append("g").selectAll("rect").data(lives).join("rect").attr("class", (life) => (y(life.offset) - y(life.offset + life.bytes) > 4 ? "fill life" : "fill")).style("--c", (life) => memoryColors[life.kind])
    .attr("x", (life) => at(life.first)).attr("width", (life) => Math.max(0.5, at(life.last + 1) - at(life.first)))
    .attr("y", (life) => y(life.offset + life.bytes)).attr("height", (life) => Math.max(0.3, y(life.offset) - y(life.offset + life.bytes))),
  (life) => ({ title: ownerText(life), rows: [["kind", life.kind], ["bytes", grouped(life.bytes)], ["at", `${grouped(life.offset)} on`],
    ["from", memory.nameOf(life.first)], ["to the end of", memory.nameOf(life.last)]] }));
  for (const region of memory.timeline.regions) {
    const top = y(region.offset + region.bytes);
    svg.append("line").attr("class", "region").attr("x1", box.left).attr("x2", box.right).attr("y1", top).attr("y2", top);
    if (y(region.offset) - top < 15) continue;
    const label = svg.append("g").attr("transform", `translate(${box.left + 6},${y(region.offset) - 7})`).style("pointer-events", "none");
    label.append("rect").attr("class", "label").attr("x", -4).attr("y", -11).attr("height", 15).attr("width", region.name.length * 7.1 + 8).attr("rx", 3);
    label.append("text").attr("class", "strong").attr("font-size", 11).text(region.name);
  }
  svg.append("text").attr("class", "strong").attr("x", box.left).attr("y", box.top - 8).text("address");
  return height;
}

// `memory` is the profile's: {kinds, timelines}.
function memoryTimelineCard({ kinds, timelines, timelines_in_all }) {
  const state = { timeline: 0, view: "kind", axis: "time" };
  const body = element("div");
  const about = element("p", { class: "about" });
  const ranksText = (timeline) => (timeline.ranks.length > 1 ? `ranks ${timeline.ranks.join(", ")}` : `rank ${timeline.ranks[0]}`);
  const draw = () => {
    const memory = readMemory(timelines[state.timeline], kinds);
    const { timeline } = memory;
    const label = `Memory of ${ranksText(timeline)} over one step of ${grouped(memory.count)} kernels: at most ${bytesText(timeline.peak_bytes)} of ${bytesText(timeline.bytes)}, at ${memory.nameOf(timeline.peak_moment)}.`;
    about.textContent = `${label} ${state.view === "kind" ? "Hatched: planned, but free just then." : "Each box is one thing where it lies, from its first kernel to its last; hatched is free."}`
      + (timelines_in_all > timelines.length ? ` Of ${timelines_in_all} kinds of ranks the first ${timelines.length} are here.` : "")
      + (timeline.evaluation_bytes > 0 ? ` ${bytesText(timeline.evaluation_bytes)} more are there for evaluation only.` : "");
    const byTime = state.axis === "time";
    body.replaceChildren(legend([...memory.used.map((kind) => ({ name: kind, color: memoryColors[kind] })), freeMemory]),
      chart({ label, draw: (svg, width) => (state.view === "kind" ? drawMemoryByKind : drawMemoryByAddress)(svg, width, memory, byTime) }),
      numbersOf(() => ownersTable(memory), "Owners at the peak"));
  };
  const pick = (key) => (value) => { state[key] = key === "timeline" ? Number(value) : value; draw(); };
  draw();
  const controls = element("div", { class: "controls" },
    timelines.length > 1 ? choice({ legend: "Rank", options: timelines.map((timeline, i) => [String(i), ranksText(timeline)]), value: "0", onchange: pick("timeline") }) : null,
    choice({ legend: "What is shown", options: [["kind", "by kind"], ["address", "by address"]], value: "kind", onchange: pick("view") }),
    choice({ legend: "Horizontal axis", options: [["time", "by time"], ["kernel", "by kernel"]], value: "time", onchange: pick("axis") }));
  return card({ title: "Memory over one step", wide: true, controls, body: [about, body] });
}

function ownersTable(memory) {
  const peak = memory.timeline.peak_moment;
  return plainTable({ caption: `What is held while ${memory.nameOf(peak)} runs, ${bytesText(memory.totalAt(peak))} in all.`, tall: true, sortable: true, rows: memory.liveAt(peak),
    columns: [{ name: "owner", of: (life) => life.name }, { name: "layer", of: (life) => life.layer }, { name: "kind", of: (life) => life.kind },
      { name: "bytes", of: (life) => life.bytes, text: grouped, number: true }, { name: "share", of: (life) => life.bytes / memory.totalAt(peak), text: (share) => percent(share), number: true },
      { name: "made at", of: (life) => memory.nameOf(life.first) }, { name: "free after", of: (life) => memory.nameOf(life.last) }] });
}
