// What the browser remembers for the pages: the login for as long as the tab is open, and choices
// such as the theme for longer. A browser that keeps nothing for any site (all cookies are blocked)
// refuses even to be asked; then it is remembered until the page is loaded anew.

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
