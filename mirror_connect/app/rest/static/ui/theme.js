// Runs before anything is painted. The choice between dark and light is the only thing that the page stores.

(() => {
  const CHOICES = ["auto", "light", "dark"];
  const read = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null;
    }
  };
  const root = document.documentElement;
  root.dataset.theme = CHOICES.includes(read()) ? read() : "auto";
  window.nextTheme = () => {
    root.dataset.theme = CHOICES[(CHOICES.indexOf(root.dataset.theme) + 1) % CHOICES.length];
    try {
      localStorage.setItem("theme", root.dataset.theme);
    } catch {
      // A browser that stores nothing forgets the choice.
    }
    return root.dataset.theme;
  };
})();
