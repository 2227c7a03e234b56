// One step of a plan: a lane a rank, a box for each piece of work, its micro-batch in it. What no box covers is bubble.
const workKinds = {
  F: { name: "forward", color: "var(--c0)" }, B: { name: "backward", color: "var(--c1)" },
  W: { name: "weight gradients", color: "var(--c2)" }, U: { name: "update", color: "var(--c4)" },
  comm: { name: "communication", color: "var(--c3)" }, input: { name: "input", color: "var(--c5)" },
  idle: { name: "idle", color: "var(--c7)", idle: true },
};

const timelineEnd = (ranks) => d3.max(ranks, (rank) => d3.max(rank.spans || [], (span) => span.end_ms)) || 0;

function timelineLegend(works) {
  return legend([...Object.keys(workKinds).filter((work) => work !== "idle" && works.has(work)), "idle"].map((work) => workKinds[work]));
}

// `longest`: ms of the whole width.
function timelineChart({ label, ranks, longest }) {
  const lane = 30;
  const figure = chart({ label, draw: (svg, width) => {
    const left = 54;
    const height = ranks.length * lane + 26;
    const x = d3.scaleLinear().domain([0, longest]).range([left, width - 10]);
    const end = x(timelineEnd(ranks));
    ranks.forEach((rank, i) => {
      const top = i * lane + 3;
      svg.append("text").attr("x", left - 8).attr("y", top + 12).attr("dy", ".35em").attr("text-anchor", "end").text(`rank ${rank.rank}`);
      svg.append("rect").attr("class", "fill idle").attr("x", left).attr("width", end - left).attr("y", top).attr("height", 24);
      const boxes = svg.append("g").selectAll("rect").data(rank.spans.filter((span) => span.work !== "idle")).join("rect")
        .attr("class", "fill").style("--c", (span) => (workKinds[span.work] || workKinds.idle).color)
        .attr("x", (span) => x(span.begin_ms)).attr("width", (span) => Math.max(0.6, x(span.end_ms) - x(span.begin_ms) - 0.6))
        .attr("y", top).attr("height", 24).attr("rx", 2);
      asMarks(boxes, (span) => ({ title: `rank ${rank.rank}, ${(workKinds[span.work] || { name: span.work }).name}`, rows: [
        ...(isNumber(span.micro_batch) && span.micro_batch >= 0 ? [["micro-batch", String(span.micro_batch)]] : []),
        ["from", `${exact(span.begin_ms)} ms`], ["to", `${exact(span.end_ms)} ms`]] }));
      svg.append("g").selectAll("text").data(rank.spans.filter((span) => "FBW".includes(span.work) && span.micro_batch >= 0 &&
        x(span.end_ms) - x(span.begin_ms) > 16)).join("text").attr("class", "on").style("fill", (span) => textOver(workKinds[span.work].color)).attr("text-anchor", "middle")
        .attr("x", (span) => x((span.begin_ms + span.end_ms) / 2)).attr("y", top + 12).attr("dy", ".35em").text((span) => span.micro_batch);
    });
    svg.append("g").attr("class", "axis").attr("transform", `translate(0,${ranks.length * lane + 2})`)
      .call(d3.axisBottom(x).ticks(Math.max(3, Math.floor(width / 120))).tickFormat((value) => `${short(value)} ms`).tickSizeOuter(0));
    return height;
  } });
  return figure;
}

function timelineTable(plans) {
  const rows = plans.flatMap((plan) => plan.timeline.flatMap((rank) => (rank.spans || []).map((span) => ({ plan: plan.plan, rank: rank.rank, ...span }))));
  return plainTable({ caption: "Every piece of work of one step.", tall: true, sortable: true, rows, columns: [{ name: "plan", of: (row) => row.plan }, { name: "rank", of: (row) => row.rank, number: true },
    { name: "work", of: (row) => (workKinds[row.work] || { name: row.work }).name }, { name: "micro-batch", of: (row) => row.micro_batch, number: true },
    { name: "begin, ms", of: (row) => row.begin_ms, number: true }, { name: "end, ms", of: (row) => row.end_ms, number: true }] });
}
