// Browser storage, for all tabs: the login, and settings such as the theme. If the browser blocks
// storage for the site, access throws, and values are kept until the page is reloaded.

const memory = new Map();

function kept(work) {
  try {
    return work(window.localStorage);
  } catch (error) {
    if (error.name === "SecurityError" || error.name === "QuotaExceededError") return null;
    throw error;
  }
}

export const ofBrowser = {
  get: (key) => kept((place) => place.getItem(key)) ?? memory.get(key) ?? null,

  // Memory has what the browser's storage has not, else another tab's removal would not be seen.
  set(key, value) {
    memory.delete(key);
    kept((place) => place.setItem(key, value));
    if (kept((place) => place.getItem(key)) !== value) memory.set(key, value);
  },

  remove(key) {
    memory.delete(key);
    kept((place) => place.removeItem(key));
  },
};
