// Light or dark colours: the system's setting until the user selects one, which is stored.

import {ofBrowser} from "./store.js";

const KEY = "leveret.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

const chosen = () => ofBrowser.get(KEY);

const theme = () => chosen() ?? (system.matches ? "dark" : "light");

export function beginTheme(button) {
  const draw = () => {
    const other = theme() === "dark" ? "light" : "dark";
    if (chosen()) document.documentElement.dataset.theme = chosen();
    button.textContent = other === "dark" ? "Dark" : "Light";
    button.setAttribute("aria-label", `Use ${other} colours`);
  };
  button.onclick = () => {
    ofBrowser.set(KEY, theme() === "dark" ? "light" : "dark");
    draw();
  };
  system.addEventListener("change", draw);
  draw();
}
