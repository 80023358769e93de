// The button that switches between light and dark. The page defines `repaint`, because canvases contain resolved
// colours.

function prepareTheme() {
  const themes = ["auto", "light", "dark"];
  const button = byId("theme");
  let at = 0;
  button.hidden = false;
  button.addEventListener("click", () => {
    at = (at + 1) % themes.length;
    document.documentElement.dataset.theme = themes[at];
    button.textContent = `Theme: ${themes[at]}`;
    repaint();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
}
