// A profile: how near each kernel comes to what the machine can do, and where the time is.
function profilePage({ profile }) {
  const { machine = {}, kernels, advice = [] } = profile;
  const measured = kernels.filter((kernel) => kernel.intensity > 0 && kernel.gflops > 0).length;
  const top = [...kernels].sort((a, b) => b.total_ms - a.total_ms)[0];
  return element("div", {},
    tiles([isNumber(profile.wall_ms) && ["Wall time", msText(profile.wall_ms), profile.steps ? `in ${grouped(profile.steps)} steps` : ""],
      ["Kernels", grouped(profile.kernels_in_all || kernels.length)], top && ["Most time", percent(top.share), `${top.name} ${top.layer || ""}`],
      machine.fp32_gflops && ["Peak, fp32", short(machine.fp32_gflops), "GFLOP/s"], machine.memory_gbps && ["Memory", short(machine.memory_gbps), "GB/s"],
      machine.launch_us && ["A launch", short(machine.launch_us), "µs"]]),
    element("div", { class: "grid" },
      String(profile.times || "").startsWith("estimate") ? card({ title: "An estimate", wide: true, about: `No time here was measured: the GPU is simulated. All times are an ${profile.times}, by its data sheet.`, body: null }) : null,
      advice.length > 0 ? card({ title: "What would help", wide: true, body: element("ul", { class: "advice" }, advice.map((text) => element("li", {}, String(text)))) }) : null,
      measured > 0 ? card({ title: "Roofline", wide: true, about: `How fast each kernel computes, by what it computes a byte moved; a circle is as large as its time. The lines are what this machine can do.${measured < kernels.length ? ` ${kernels.length - measured} kernels that only move data are not here.` : ""}`,
        body: rooflineChart({ label: `Roofline of ${measured} kernels${machine.fp32_gflops ? `, under ${short(machine.fp32_gflops)} GFLOP/s and ${short(machine.memory_gbps)} GB/s` : ""}.`, machine, kernels }) }) : null,
      card({ title: "Time by layer", wide: true, about: "Every area is as large as its time.", body: timeTreemap({ label: `Time by layer and phase, ${msText(d3.sum(kernels, (kernel) => kernel.total_ms))} in all.`, kernels }) }),
      card({ title: "Kernels", wide: true, body: kernelTable(profile) }), memoryOfProfile(profile.memory)));
}

function kernelTable(profile) {
  const figure = (name, key, text = (value) => short(value, 4)) => ({ name, of: (kernel) => kernel[key], number: true, text: (value) => (isNumber(value) ? text(value) : "") });
  const columns = [{ name: "kernel", of: (kernel) => kernel.name }, { name: "by", of: (kernel) => kernel.implementation || "" }, { name: "layer", of: (kernel) => kernel.layer || "" },
    { name: "phase", of: (kernel) => kernel.phase || "" }, figure("rank", "rank", String), figure("calls", "calls", grouped), figure("total ms", "total_ms"), figure("mean ms", "mean_ms"),
    figure("least ms", "min_ms"), figure("most ms", "max_ms"), figure("share", "share", (share) => percent(share)), figure("GFLOP/s", "gflops"), figure("GB/s", "gbps"),
    figure("FLOP a byte", "intensity"), figure("% of roof", "roof_percent"), { name: "bound by", of: (kernel) => kernel.bound || "" }]
    .filter((column) => profile.kernels.some((kernel) => column.of(kernel) !== undefined && column.of(kernel) !== ""));
  const more = profile.kernels_in_all > profile.kernels.length ? ` The first ${grouped(profile.kernels.length)} of ${grouped(profile.kernels_in_all)}.` : "";
  return plainTable({ caption: `Every kernel; click a column to sort by it.${more}`, columns, rows: profile.kernels, sortable: true, tall: true, filter: "Filter: conv1 weight winograd" });
}

function memoryOfProfile(memory) {
  const kinds = memory && typeof memory === "object" && !Array.isArray(memory) ? Object.entries(memory).filter(([, value]) => isNumber(value)) : [];
  if (kinds.length === 0) return null;
  return card({ title: "Memory", wide: true, body: barChart({ label: `Memory by kind: ${kinds.map(([name, value]) => `${name} ${bytesText(value)}`).join(", ")}.`,
    rows: kinds.map(([name, value], i) => ({ name, parts: [{ name, value, color: seriesColor(i) }] })), text: bytesText, xName: "bytes" }) });
}
