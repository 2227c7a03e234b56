// A comparison of plans: which is fastest, where the others' time goes, what they send and hold, whether they agree.
const stepParts = [
  { key: "compute", name: "compute", color: "var(--c0)" }, { key: "exposed_comm", name: "communication", color: "var(--c3)" },
  { key: "bubble", name: "bubble", color: "var(--c7)", idle: true }, { key: "input", name: "input", color: "var(--c5)" },
  { key: "optimizer", name: "optimiser", color: "var(--c4)" }, { key: "undivided", name: "workers, not divided", color: "var(--c9)" },
];
const stepTotal = (plan) => d3.sum(stepParts, (part) => (plan.step_ms || {})[part.key] || 0);

function comparePage({ compare }) {
  const plans = compare.plans;
  const winner = plans.find((plan) => plan.plan === compare.winner) || plans[0];
  const single = plans.find((plan) => plan.plan === "single") || plans[0];
  const context = { compare, plans, winner, single };
  return element("div", {},
    tiles([["Fastest", short(winner.images_per_s, 4), "", "images/s"],
      isNumber(winner.speedup) && winner !== single && ["Against one rank", `${short(winner.speedup)} ×`, "", "as fast"],
      ["Batch", grouped(compare.batch || 0), "", "images"], ["Steps", grouped(compare.steps || 0), "", `of each plan, in ${compare.rounds} rounds`], ["Cores", String(compare.cores || "?"), "", "of this machine"]]),
    element("div", { class: "grid" }, throughputCard(context), stepCard(context), timelineCard(context), whyCards(context),
      memoryCard(context), trafficCard(context), lossCard(context), predictionCard(context)));
}

function throughputCard({ plans, winner }) {
  const rows = plans.map((plan) => ({ name: plan.plan, best: plan === winner, note: `speed-up ${short(plan.speedup)}, efficiency ${percent(plan.efficiency, 0)}`,
    low: plan.slowest_images_per_s, high: plan.fastest_images_per_s,
    parts: [{ name: "images/s", value: plan.images_per_s, color: plan === winner ? "var(--c2)" : "var(--c0)" }] }));
  return card({ title: "Throughput", about: "Of the median round; the whisker goes from the slowest round to the fastest.",
    body: barChart({ label: `Images per second by plan; ${winner.plan} is fastest with ${short(winner.images_per_s, 4)}.`, rows, text: (value) => short(value, 4), xName: "images/s" }) });
}

function stepCard({ plans, winner }) {
  const rows = plans.map((plan) => ({ name: plan.plan, best: plan === winner, parts: stepParts.map((part) => ({ ...part, value: (plan.step_ms || {})[part.key] })) }));
  return card({ title: "Where a step's time goes", about: "Milliseconds of the median round's step.",
    body: barChart({ label: `Milliseconds of a step by plan and kind of work: ${plans.map((plan) => `${plan.plan} ${short(stepTotal(plan))}`).join(", ")}.`, rows, text: msText, xName: "ms", showLegend: true }) });
}

// All plans on one scale, so that their lengths can be compared; where the shortest would vanish, each on its own at first.
function timelineCard({ plans }) {
  const drawn = plans.filter((plan) => Array.isArray(plan.timeline) && plan.timeline.some((rank) => (rank.spans || []).length > 0));
  if (drawn.length === 0) return null;
  const [shortest, longest] = d3.extent(drawn, (plan) => timelineEnd(plan.timeline));
  const works = new Set(drawn.flatMap((plan) => plan.timeline.flatMap((rank) => (rank.spans || []).map((span) => span.work))));
  const body = element("div");
  const draw = (scale) => body.replaceChildren(...drawn.map((plan) => {
    const end = timelineEnd(plan.timeline);
    return element("div", { class: "part" }, element("h4", {}, plan.plan, element("small", {}, ` ${msText(end)}`)),
      timelineChart({ label: `Timeline of one step of ${plan.plan} on ${plan.timeline.length} ${plan.timeline.length > 1 ? "ranks" : "rank"}, ${msText(end)} long.`, longest: scale === "one" ? longest : end,
        ranks: plan.timeline.map((rank) => ({ rank: rank.rank, spans: rank.spans || [] })) }));
  }));
  const first = longest > 3 * shortest ? "own" : "one";
  draw(first);
  return card({ title: "One step of each plan", wide: true, about: "Who works on which micro-batch when; its number is in the box. Hatched: nobody's work, the bubble.",
    controls: choice({ legend: "Scale of time", options: [["one", "one scale"], ["own", "each its own"]], value: first, onchange: draw }),
    body: [timelineLegend(works), body, numbersOf(() => timelineTable(drawn))] });
}

function whyCards({ plans, winner }) {
  const lost = plans.filter((plan) => plan !== winner && plan.why);
  return lost.map((plan, i) => {
    const parts = stepParts.map((part) => ({ name: part.name, color: part.color, change: Number((((plan.step_ms || {})[part.key] || 0) - ((winner.step_ms || {})[part.key] || 0)).toPrecision(5)) }))
      .filter((part) => Math.abs(part.change) > 0.002 * stepTotal(plan));
    return card({ title: `Why ${plan.plan} lost`, wide: lost.length % 2 === 1 && i === lost.length - 1, body: element("div", {}, element("p", { class: "why" }, plan.why),
      waterfallChart({ label: `From ${winner.plan}'s step of ${msText(stepTotal(winner))} to ${plan.plan}'s of ${msText(stepTotal(plan))}: ${parts.map((part) => `${part.name} ${part.change > 0 ? "+" : ""}${msText(part.change)}`).join(", ")}.`,
        from: { name: winner.plan, value: stepTotal(winner) }, to: { name: plan.plan, value: stepTotal(plan) }, parts })) });
  });
}

// As on a profile's page, where there is the same kind of memory.
const regionColors = {
  "parameters": "var(--c0)", "optimizer state": "var(--c9)", "gradients": "var(--c4)", "accumulated gradients": "color-mix(in srgb, var(--c4) 55%, var(--card))", "states": "var(--c8)",
  "inputs": "var(--c6)", "messages": "var(--c3)", "kept activations": "var(--c2)", "arena": "var(--c5)", "reports": "var(--c7)",
};

function memoryCard({ plans, winner }) {
  const found = new Set(plans.flatMap((plan) => (plan.memory || []).flatMap((rank) => Object.keys(rank).filter((kind) => rank[kind].found > 0))));
  const kinds = [...Object.keys(regionColors).filter((kind) => found.delete(kind)), ...found];
  if (kinds.length === 0) return null;
  const rows = plans.flatMap((plan) => (plan.memory || []).map((rank, i) => ({ name: plan.memory.length > 1 ? `${plan.plan}, rank ${i}` : plan.plan, best: plan === winner,
    parts: kinds.map((kind) => ({ name: kind, color: regionColors[kind] || "var(--c7)", value: (rank[kind] || {}).found || 0 })) })));
  return card({ title: "Memory of each rank", wide: true, about: "By what it holds, as found in use after the steps. The arena holds activations, their gradients and scratch, one after the other.",
    body: barChart({ label: `Bytes of each rank by kind; the most is ${bytesText(d3.max(rows, (row) => d3.sum(row.parts, (part) => part.value)))}.`, rows, text: bytesText, xName: "", showLegend: true, gap: 26 }) });
}

function trafficCard({ plans }) {
  const folded = plans.filter((plan) => Array.isArray(plan.sent_to) && plan.sent_to.length > 1);
  if (folded.length === 0) return null;
  const most = d3.max(folded, (plan) => d3.max(plan.sent_to, (row) => d3.max(row))) || 1;
  return card({ title: "What ranks send each other", wide: true, about: "Bytes a step from row to column, collectives counted as rings send them. One shade means the same in all plans.",
    body: element("div", { class: "multiples" }, folded.map((plan) => element("div", {}, element("h4", {}, plan.plan),
      matrixChart({ label: `Bytes that the ranks of ${plan.plan} send each other in a step, ${bytesText(d3.sum(plan.sent_to, (row) => d3.sum(row)))} in all.`,
        names: plan.sent_to.map((_, i) => String(i)), values: plan.sent_to, rowName: "from rank", columnName: "to rank", text: (value) => bytesText(value).replace(" ", "\u202f"), tipText: (value) => `${exact(value)} bytes`, most, side: 230 })))) });
}

function lossCard({ compare, plans, single }) {
  const lines = plans.filter((plan) => (plan.losses || []).length > 0).map((plan) => {
    const i = plans.indexOf(plan);
    return { name: plan.plan, color: seriesColor(i), x: plan.losses.map((_, step) => (step + 1) * (plan.losses_stride || 1)), y: plan.losses };
  });
  if (lines.length === 0) return null;
  const apart = lines.filter((line) => line.name !== single.plan).map((line) => ({ ...line,
    y: line.y.map((loss, i) => Math.abs(loss - single.losses[i]) / Math.abs(single.losses[i] || 1)) }));
  const rounding = compare.loss_rounding;
  if (isNumber(rounding) && rounding > 0) apart.push({ name: "rounding alone", color: "var(--c7)", dashed: true, x: lines[0].x, y: lines[0].x.map(() => rounding) });
  const seen = apart.filter((line) => line.y.some((value) => value > 0));
  const largest = d3.max(seen.filter((line) => !line.dashed), (line) => d3.max(line.y));
  // Lines that lie on each other: the first are drawn wider, so that each can be seen.
  const wide = lines.map((line, i) => ({ ...line, width: 1.8 + 1.3 * (lines.length - 1 - i) }));
  return card({ title: "Losses", wide: true, about: "Same weights, same samples: the lines should lie on each other, so they are drawn one within the other.",
    body: [lineChart({ label: `Loss after each step of ${lines.length} plans.`, series: wide, xName: "step", yName: "loss" }),
      seen.length === 0 ? element("p", { class: "about" }, `No plan's loss differs from ${single.plan}'s in any bit.`)
        : element("div", { class: "part" }, element("h4", {}, `Difference to ${single.plan}`),
          element("p", { class: "about" }, "Of the loss, relative. Dashed: what changing the last bits of the first weights does."),
          lineChart({ label: `Relative difference of each plan's loss to ${single.plan}'s${largest > 0 ? `, at most ${short(largest)}` : ""}.`, series: seen, xName: "step", yName: "difference", log: true }))] });
}

function predictionCard({ plans }) {
  const rows = plans.flatMap((plan) => [
    ...(plan.planned_bytes || []).map((planned, rank) => ({ plan: plan.plan, what: plan.planned_bytes.length > 1 ? `memory of rank ${rank}` : "memory", predicted: planned, measured: (plan.peak_bytes || [])[rank], text: bytesText })),
    ...(plan.pipeline ? [{ plan: plan.plan, what: "bubble", predicted: plan.pipeline.predicted_bubble_ms, measured: plan.pipeline.bubble_ms, text: msText }] : []),
  ]).filter((row) => isNumber(row.predicted) && isNumber(row.measured));
  if (rows.length === 0) return null;
  const ratios = rows.filter((row) => row.predicted > 0).map((row) => ({ name: `${row.plan}: ${row.what}`, ratio: row.measured / row.predicted,
    tip: [["predicted", row.text(row.predicted)], ["measured", row.text(row.measured)], ["measured to predicted", percent(row.measured / row.predicted)]] }));
  return card({ title: "Predicted and measured", wide: true, about: "What was known before the steps ran, against what they took: on the line it was right, to the right of it it took more.",
    body: [ratioChart({ label: `Measured to predicted, of ${ratios.length} figures: ${short(d3.min(ratios, (row) => row.ratio))} to ${short(d3.max(ratios, (row) => row.ratio))} times.`, rows: ratios }),
      numbersOf(() => plainTable({ caption: "Predicted and measured.", tall: true, sortable: true, rows, columns: [
        { name: "plan", of: (row) => row.plan }, { name: "what", of: (row) => row.what },
        { name: "predicted", of: (row) => row.predicted, text: (value, row) => row.text(value), number: true },
        { name: "measured", of: (row) => row.measured, text: (value, row) => row.text(value), number: true },
        { name: "measured to predicted", of: (row) => row.measured / row.predicted, text: (ratio) => percent(ratio), number: true }] }))] });
}
