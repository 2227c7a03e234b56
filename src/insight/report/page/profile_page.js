// A profile: how near each kernel comes to what the machine can do, and where the time is.
function profilePage(run) {
  const profile = { ...run.profile, kernels: rowsOf(run.profile.kernels) };
  const { machine = {}, kernels, advice = [], memory = null } = profile;
  const measured = kernels.filter(computes).length;
  const timelines = ((memory || {}).timelines || []).filter((timeline) => timeline.moments.node.length > 0);
  const held = [...timelines].sort((a, b) => b.peak_bytes - a.peak_bytes)[0];
  const split = (text) => text.split(" ");
  return element("div", {},
    tiles([isNumber(profile.wall_ms) && profile.steps && ["A step", ...split(msText(profile.wall_ms / profile.steps)), `mean of ${grouped(profile.steps)}`],
      profile.batch && isNumber(profile.wall_ms) && ["Throughput", short(1e3 * profile.batch * profile.steps / profile.wall_ms, 4), "", `images/s, batch ${grouped(profile.batch)}`],
      ["Kernels", grouped(profile.kernels_in_all || kernels.length), "", profile.ranks > 1 ? `on ${profile.ranks} ranks` : ""],
      isNumber(profile.attributed) && ["Attributed", percent(profile.attributed), "", isNumber(profile.overhead) ? `measuring cost ${percent(profile.overhead, 2)}` : "of the time"],
      held && ["Memory at most", ...split(bytesText(held.peak_bytes)), `rank ${held.ranks[0]}`],
      machine.fp32_gflops && ["Peak, fp32", short(machine.fp32_gflops), "", "GFLOP/s, measured"], machine.memory_gbps && ["Memory streams", short(machine.memory_gbps), "", "GB/s, measured"]]),
    element("div", { class: "grid" },
      String(profile.times || "").startsWith("estimate") ? card({ title: "An estimate", wide: true, about: `No time here was measured: the GPU is simulated. All times are an ${profile.times}, by its data sheet.`, body: null }) : null,
      advice.length > 0 ? card({ title: "What would help", wide: true, body: element("ul", { class: "advice" }, advice.map((text) => element("li", {}, String(text)))) }) : null,
      measured > 0 ? card({ title: "Roofline", wide: true, about: `How fast each kernel computes, by what it computes a byte moved; a circle is as large as its time. The lines are what this machine can do.${measured < kernels.length ? ` ${kernels.length - measured} that hardly compute or hardly take time are not here.` : ""}`,
        body: rooflineChart({ label: `Roofline of ${measured} kernels${machine.fp32_gflops ? `, under ${short(machine.fp32_gflops)} GFLOP/s and ${short(machine.memory_gbps)} GB/s` : ""}.`, machine, kernels }) }) : null,
      card({ title: "Time by layer", wide: true, about: "Every area is as large as its time.", body: timeTreemap({ label: `Time by layer and phase, ${msText(d3.sum(kernels, (kernel) => kernel.total_ms))} in all.`, kernels }) }),
      timelines.length > 0 ? memoryTimelineCard({ ...memory, timelines }) : null,
      card({ title: "Kernels", wide: true, body: kernelTable(profile) })));
}

// Columns as objects: {count, columns: {key: [..]}}.
function rowsOf({ count, columns }) {
  const entries = Object.entries(columns);
  return d3.range(count).map((i) => Object.fromEntries(entries.map(([key, values]) => [key, values[i]])));
}

// What a figure of a kernel is called and how it is written; of others the name in the file is shown.
const kernelFigures = {
  total_ms: ["total ms"], share: ["share", (share) => percent(share)], mean_ms: ["mean ms"], min_ms: ["least ms"], max_ms: ["most ms"], calls: ["calls", grouped], gflops: ["GFLOP/s"],
  gbps: ["GB/s"], intensity: ["FLOP a byte"], roof_percent: ["% of roof", (value) => (value > 0 ? value.toFixed(1) : "")], flops: ["FLOPs", (value) => scaled(value, "").trim()], bytes: ["bytes", bytesText], rank: ["rank", String],
};
const kernelTexts = { name: "kernel", implementation: "by", layer: "layer", phase: "phase", bound: "bound by" };

// The columns that the file has, the known ones in this order; a column that is the same in every row says nothing.
function kernelColumns(kernels) {
  const order = ["name", "layer", "phase", "total_ms", "share", "gflops", "gbps", "roof_percent", "bound", "calls", "mean_ms", "min_ms", "max_ms", "intensity", "flops", "bytes", "implementation", "rank"];
  const present = new Set(kernels.flatMap((kernel) => Object.keys(kernel)).filter((key) => kernels.some((kernel) => typeof kernel[key] === "string" || isNumber(kernel[key]))));
  if (kernels.every((kernel) => kernel.rank === 0)) present.delete("rank");
  const keys = [...order.filter((key) => present.delete(key)), ...present];
  const most = d3.max(kernels, (kernel) => kernel.share) || 1;
  return keys.map((key) => {
    if (!kernels.some((kernel) => isNumber(kernel[key]))) return { name: kernelTexts[key] || key.replaceAll("_", " "), of: (kernel) => kernel[key] ?? "" };
    const [name, text = aligned(d3.max(kernels, (kernel) => kernel[key]))] = kernelFigures[key] || [key.replaceAll("_", " ")];
    return { name, of: (kernel) => kernel[key], number: true, text: (value) => (isNumber(value) ? text(value) : value ?? ""), bar: key === "share" ? (kernel) => kernel.share / most : null };
  });
}

function kernelTable(profile) {
  const more = profile.kernels_in_all > profile.kernels.length ? ` The first ${grouped(profile.kernels.length)} of ${grouped(profile.kernels_in_all)}.` : "";
  return plainTable({ caption: `Every kernel of every layer; a click on a column's name sorts by it.${more}`, columns: kernelColumns(profile.kernels), rows: profile.kernels, sortable: true, tall: true, frozen: true, filter: "Filter, as: conv1 weight winograd" });
}
