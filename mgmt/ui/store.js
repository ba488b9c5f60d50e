// Browser storage: the login until the tab is closed, and settings such as the theme permanently.
// If the browser blocks storage for the site, access throws, and values are kept until the page is
// reloaded.

const memory = new Map();

function kept(which, work) {
  try {
    return work(window[which]);
  } catch (error) {
    if (error.name === "SecurityError" || error.name === "QuotaExceededError") return null;
    throw error;
  }
}

function store(which) {
  const nameOf = (key) => `${which} ${key}`;
  return {
    get: (key) => kept(which, (place) => place.getItem(key)) ?? memory.get(nameOf(key)) ?? null,

    set(key, value) {
      memory.set(nameOf(key), value);
      kept(which, (place) => place.setItem(key, value));
    },

    remove(key) {
      memory.delete(nameOf(key));
      kept(which, (place) => place.removeItem(key));
    },
  };
}

export const ofTab = store("sessionStorage");
export const ofBrowser = store("localStorage");
