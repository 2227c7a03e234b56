// Dark or light: as the system says until the reader chooses; the choice is remembered where the browser lets a page do so.
const themeKey = "trifold-report-theme";
const systemDark = window.matchMedia("(prefers-color-scheme: dark)");

function rememberedTheme() {
  try { return localStorage.getItem(themeKey); } catch (refused) { return null; }
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  button.textContent = theme === "dark" ? "Light" : "Dark";
  button.setAttribute("aria-label", `Switch to ${theme === "dark" ? "light" : "dark"} colours`);
}

function startTheme() {
  const fromSystem = () => (systemDark.matches ? "dark" : "light");
  setTheme(rememberedTheme() || fromSystem());
  systemDark.addEventListener("change", () => { if (!rememberedTheme()) setTheme(fromSystem()); });
  document.getElementById("theme").addEventListener("click", () => {
    const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem(themeKey, theme); } catch (refused) { /* until the page is closed */ }
    setTheme(theme);
  });
  let onScreen = null;  // paper is light, and has every run
  window.addEventListener("beforeprint", () => {
    onScreen = document.documentElement.dataset.theme;
    setTheme("light");
    document.documentElement.classList.add("printing");
    document.querySelectorAll("figure").forEach((figure) => figure.redraw());
  });
  window.addEventListener("afterprint", () => {
    if (onScreen) setTheme(onScreen);
    document.documentElement.classList.remove("printing");
    document.querySelectorAll("figure").forEach((figure) => figure.redraw());
  });
}
