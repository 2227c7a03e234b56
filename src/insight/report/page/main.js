// Draws the runs that the page carries: one alone, several as tabs (left and right arrows move between them).
function tabbed(runs) {
  const panels = runs.map((run, i) => element("div", { role: "tabpanel", id: `run-${i}`, "aria-labelledby": `tab-${i}`, tabindex: 0, hidden: i > 0 }, runPage(run)));
  const tabs = runs.map((run, i) => element("button", { role: "tab", type: "button", id: `tab-${i}`, "aria-controls": `run-${i}`, onclick: () => select(i) }, run.name));
  const select = (chosen) => {
    tabs.forEach((tab, i) => {
      tab.setAttribute("aria-selected", String(i === chosen));
      tab.tabIndex = i === chosen ? 0 : -1;
      panels[i].hidden = i !== chosen;
    });
  };
  const list = element("div", { role: "tablist", "aria-label": "Runs", onkeydown: (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = (tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length;
    select(next);
    tabs[next].focus();
  } }, tabs);
  select(0);
  document.getElementById("tabs").append(list);
  return panels;
}

function start() {
  const { runs } = JSON.parse(document.getElementById("data").textContent);
  startTheme();
  document.getElementById("main").replaceChildren(...(runs.length > 1 ? tabbed(runs) : [runPage(runs[0])]));
}
start();
