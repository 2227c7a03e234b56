// A training run: its figures over steps or time, what it gets wrong, and the network.
const metricTitles = {
  loss: "Loss", accuracy: "Accuracy", learning_rate: "Learning rate", loss_scale: "Loss scale",
  skipped_updates: "Skipped updates", images_per_s: "Images per second",
};
const curveColors = { train: "var(--c0)", test: "var(--c3)" };
const last = (list) => list[list.length - 1];

function trainPage(run) {
  const { metrics, evaluation } = run;
  const series = metrics.series || {};
  const train = series.train || {};
  const test = series.test || {};
  const timed = Boolean(train.loss && train.loss.time_s);
  const charts = element("div", { class: "grid" });
  const draw = (axis) => {
    const cards = metricCards(series, axis).filter(Boolean);
    if (cards.length % 2 === 1) last(cards).classList.add("wide");
    charts.replaceChildren(...cards);
  };
  draw("step");
  return element("div", {}, trainTiles({ run, train, test }),
    element("div", { class: "bar" }, element("h2", {}, "Training"),
      timed ? choice({ legend: "Horizontal axis", options: [["step", "by step"], ["time_s", "by time"]], value: "step", onchange: draw }) : null),
    metrics.lost_values > 0 ? element("p", { class: "about" }, `${grouped(metrics.lost_values)} values were infinite or not a number; they are left out.`) : null,
    charts, evaluation ? evaluationCards(evaluation) : null);
}

function trainTiles({ run, train, test }) {
  const best = (metric, pick) => (metric ? pick(metric.mean) : undefined);
  const seconds = train.loss && train.loss.time_s ? last(train.loss.time_s) : undefined;
  const parameters = run.network ? d3.sum(run.network.layers, (layer) => layer.parameters) : undefined;
  return tiles([
    ["Steps", grouped(run.metrics.steps), "", run.metrics.epochs ? `in ${grouped(run.metrics.epochs)} epochs` : ""],
    train.loss && ["Training loss", short(last(train.loss.mean)), "", "last"],
    test.loss && ["Test loss", short(best(test.loss, d3.min)), "", "best"],
    test.accuracy && ["Test accuracy", percent(best(test.accuracy, d3.max), 2), "", "best"],
    train.images_per_s && ["Throughput", short(d3.median(train.images_per_s.mean), 4), "", "images/s, median"],
    seconds !== undefined && ["Time", secondsText(seconds), "", "of all steps"],
    parameters && ["Parameters", scaled(parameters, "").trim(), "", `in ${grouped(run.network.layers.length)} layers`],
  ]);
}

// One card a figure, of all the phases that have it; the known ones first.
function metricCards(series, axis) {
  const names = [...new Set([...Object.keys(metricTitles), ...Object.values(series).flatMap((phase) => Object.keys(phase))])];
  const unit = axis === "step" ? { name: "step", size: 1 } : timeUnit(d3.max(Object.values(series).flatMap((phase) => Object.values(phase)), (metric) => last(metric.time_s || [0])));
  return names.map((name) => {
    const lines = Object.entries(series).filter(([, phase]) => phase[name]).map(([phase, metrics]) => {
      const metric = metrics[name];
      return { name: phase, x: axis === "step" ? metric.step : (metric.time_s || []).map((seconds) => seconds / unit.size), y: metric.mean, low: metric.min, high: metric.max,
        color: curveColors[phase] || "var(--c2)", dots: phase !== "train" && metric.mean.length < 200 };
    }).sort((a, b) => d3.descending(a.name === "train", b.name === "train"));
    if (name === "skipped_updates" && lines.every((line) => line.y.every((value) => value === 0))) return null;  // the loss scale's card says so
    return lines.some((line) => line.x.length > 0) ? metricCard({ name, lines, unit, series }) : null;
  }).filter(Boolean);
}

// What a run of so many seconds is counted in.
function timeUnit(seconds) {
  if (seconds >= 7200) return { name: "hours", size: 3600 };
  return seconds >= 180 ? { name: "minutes", size: 60 } : { name: "seconds", size: 1 };
}

function metricCard({ name, lines, unit, series }) {
  const title = metricTitles[name] || name.replaceAll("_", " ");
  const values = lines.flatMap((line) => line.y).filter(isNumber);
  const steep = name === "loss" && d3.min(values) > 0 && d3.max(values) / d3.min(values) > 50;
  const place = element("div");
  const draw = (scale) => place.replaceChildren(lineChart({
    label: `${title} over ${unit.name === "step" ? "steps" : "time"}: ${lines.map((line) => `${line.name} from ${short(line.y[0])} to ${short(last(line.y))}`).join(", ")}.`,
    series: lines, xName: unit.name, yName: title, log: scale === "log", highest: name === "accuracy" ? 1 : Infinity,
    xText: unit.name === "step" ? grouped : (value) => short(value, 4) }));
  draw(steep ? "log" : "linear");
  const skips = ((series.train || {}).skipped_updates || {}).mean;
  const skipped = name !== "loss_scale" || !skips ? "" : last(skips) > 0 ? `${grouped(Math.round(last(skips)))} updates were skipped because gradients overflowed.` : "No update was skipped.";
  const some = ((series.train || {})[name] || {}).values_a_point;
  const scales = ["loss", "learning_rate"].includes(name) && d3.min(values) > 0
    ? choice({ legend: `Scale of ${title}`, options: [["linear", "linear"], ["log", "log"]], value: steep ? "log" : "linear", onchange: draw }) : null;
  return card({ title, controls: scales, body: place,
    about: [some > 1 ? `Each point is the mean of ${grouped(some)} steps; the band is their least and most.` : "", skipped].filter(Boolean).join(" ") });
}

function evaluationCards({ classes = [], confusion, worst = [] }) {
  const cards = [];
  if (Array.isArray(confusion) && confusion.length > 0) {
    const names = confusion.map((_, i) => String(classes[i] ?? i));
    const right = d3.sum(confusion, (row, i) => row[i]);
    const all = d3.sum(confusion, (row) => d3.sum(row));
    cards.push(card({ title: "Confusion of classes", wide: worst.length === 0,
      about: `${grouped(right)} of ${grouped(all)} test samples are right (${percent(right / all, 2)}). The diagonal is what is right.`,
      body: matrixChart({ label: `Confusion matrix of ${names.length} classes; ${percent(right / all, 2)} of the samples are on its diagonal.`,
        names, values: confusion, rowName: "true class", columnName: "predicted class", text: (value) => String(value), diagonalApart: true }) }));
  }
  if (worst.length > 0) cards.push(card({ title: "Worst samples", wide: cards.length === 0,
    about: "Those of the test set with the largest loss, worst first: what it is, what it was taken for, and how sure the network was.", body: sampleGallery(worst, classes) }));
  return cards.length === 0 ? null : element("div", {}, element("h2", {}, "Evaluation"), element("div", { class: "grid" }, cards));
}

function sampleGallery(worst, classes) {
  const name = (index) => String(classes[index] ?? index);
  return element("ul", { class: "samples" }, worst.map((sample) => {
    const sure = isNumber(sample.probability) ? percent(sample.probability, 0) : "";
    const words = `Test sample ${sample.index}: ${name(sample.label)}, taken for ${name(sample.predicted)}${sure ? `, sure to ${sure}` : ""}${isNumber(sample.loss) ? `, loss ${short(sample.loss)}` : ""}`;
    return element("li", { title: words }, sample.png ? element("img", { src: `data:image/png;base64,${sample.png}`, alt: words }) : null,
      element("span", { class: "labels" }, element("strong", {}, name(sample.label)), sample.label === sample.predicted ? " right" : [" → ", element("strong", { class: "wrong" }, name(sample.predicted))]), sure);
  }));
}
