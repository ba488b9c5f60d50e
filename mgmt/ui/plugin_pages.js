// Pages of plugins: ES modules of packages beside Leveret, which import addPage from here.

import {get} from "./api.js";
import {notice} from "./dialog.js";
import {route} from "./router.js";

// The pages, as [name, title], in the order of their plugins.
export const pluginPages = [];

// Adds a page at #/NAME and a link to it. show(parameters): as of route() in router.js.
export function addPage(name, title, show) {
  pluginPages.push([name, title]);
  route(name, show);
}

// Loads the pages of the plugins that run. One that cannot be loaded is named, and left out.
export async function loadPluginPages() {
  for (const {javascript, plugin, page} of await get("extensions")) {
    if (!plugin) continue;
    try {
      await import(`./${javascript}`);
    } catch (error) {
      notice(`Page ${page} of plugin ${plugin} cannot be loaded: ${error.message}`, true);
    }
  }
}
