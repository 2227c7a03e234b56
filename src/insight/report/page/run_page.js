// One run: its name, what kind it is, the pages of what it holds, and below them its network, machine and job.
function runPage(run) {
  const kinds = [run.metrics && "training run", run.compare && "comparison of plans", run.profile && "profile"].filter(Boolean);
  const environment = run.environment || {};
  const where = [environment.cpu, environment.date].filter(Boolean).join(", ");
  const winner = run.compare && run.compare.plans.find((plan) => plan.plan === run.compare.winner);
  return element("div", {}, element("h1", {}, run.name),
    element("p", { class: "lead" }, kinds.join(" and "), where ? ` on ${where}` : "", ".",
      winner ? [" ", element("strong", {}, `${winner.plan} is the fastest of ${run.compare.plans.length} plans.`)] : null),
    run.metrics ? trainPage(run) : null, run.compare ? comparePage(run) : null, run.profile ? profilePage(run) : null,
    networkSection(run), detailsSection(run));
}

function networkSection(run) {
  if (!run.network) return run.network_missing ? element("p", { class: "about" }, `The network is not drawn: ${run.network_missing}`) : null;
  const { layers, plan, note } = run.network;
  const parameters = d3.sum(layers, (layer) => layer.parameters);
  return element("div", {}, element("h2", {}, "Network"), element("div", { class: "grid" }, card({
    title: `${layers.length} layers`, wide: true,
    about: `${grouped(parameters)} parameters, plan ${plan}. Outputs have the shape of one sample.${note ? ` (${note})` : ""}`,
    body: networkChart({ label: `The network: ${layers.length} layers, ${grouped(parameters)} parameters.`, network: run.network }) })));
}

// Short lists of numbers on one line.
const jobText = (job) => JSON.stringify(job, null, 2).replace(/\[\s+([-\d.,\s]+?)\s+\]/g, (_, list) => `[${list.replace(/\s+/g, " ")}]`);

function detailsSection(run) {
  const parts = [];
  const text = (value, [name]) => (name.endsWith("_bytes") ? bytesText(value) : Array.isArray(value) ? value.join(", ") || "none" : String(value));
  if (run.environment) parts.push(card({ title: "Environment", wide: !run.job,
    body: plainTable({ caption: "What the run was made by and on.", headless: true, rows: Object.entries(run.environment),
      columns: [{ name: "what", head: true, of: ([name]) => name.replaceAll("_bytes", "").replaceAll("_", " ") }, { name: "value", of: ([, value]) => value, wrap: true, text }] }) }));
  if (run.job) parts.push(card({ title: "Resolved job", wide: !run.environment, about: "With all defaults; it is the run folder's job.json.",
    body: element("pre", { tabindex: 0, role: "region", "aria-label": "Resolved job" }, jobText(run.job)) }));
  return parts.length === 0 ? null : element("div", {}, element("h2", {}, "Made from"), element("div", { class: "grid" }, parts));
}
