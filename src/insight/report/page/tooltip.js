// The one tooltip of the page: {title, rows: [[name, value]]} beside the pointer, or beside a mark reached by keyboard.
const tooltip = document.getElementById("tooltip");

function showTooltip({ title, rows = [] }, x, y) {
  tooltip.replaceChildren(element("b", {}, title),
    ...rows.map(([name, value]) => element("span", {}, element("span", {}, name), element("span", {}, value))));
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  const left = x + 14 + box.width > window.innerWidth ? x - box.width - 14 : x + 14;
  const top = y + 14 + box.height > window.innerHeight ? y - box.height - 10 : y + 14;
  tooltip.style.left = `${Math.max(6, left)}px`;
  tooltip.style.top = `${Math.max(6, top)}px`;
}

function hideTooltip() {
  tooltip.hidden = true;
}
window.addEventListener("scroll", hideTooltip, { passive: true });
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideTooltip(); });
