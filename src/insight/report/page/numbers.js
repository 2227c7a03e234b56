// Numbers as people read them. exact() keeps every digit that the data has.
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const exact = (value) => (isNumber(value) ? String(value) : "none");

function short(value, digits = 3) {
  if (!isNumber(value)) return "none";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return Number(value.toPrecision(digits)).toExponential().replace("e+", "e");
  if (size >= 1000) return d3.format(",.0f")(value);
  return String(Number(value.toPrecision(digits)));
}

// As many decimals for all numbers of a column as its largest needs for four digits: points stand below each other.
function aligned(most) {
  const decimals = Number.isInteger(most) || !(most < 1000) ? 0 : most >= 100 ? 1 : most >= 10 ? 2 : most >= 0.01 ? 3 : 5;
  return d3.format(`,.${decimals}f`);
}

const grouped = d3.format(",");
const percent = (share, digits = 1) => (isNumber(share) ? `${(100 * share).toFixed(digits)} %` : "none");

function scaled(value, unit) {
  if (!isNumber(value)) return "none";
  for (const [limit, prefix] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (Math.abs(value) >= limit) return `${short(value / limit)} ${prefix}${unit}`;
  return `${short(value)} ${unit}`;
}
const bytesText = (value) => scaled(value, "B");
const msText = (value) => (isNumber(value) ? `${short(value)} ms` : "none");

function secondsText(value) {
  if (!isNumber(value)) return "none";
  if (value < 120) return `${short(value)} s`;
  const minutes = Math.round(value / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
